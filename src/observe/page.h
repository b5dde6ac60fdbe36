/* page.h - the HTML page that shows a trace (page.html), as the build has put it into the library:
 * with the mark where the trace goes in, and a NUL at its end. */
#ifndef PTOI_PAGE_H
#define PTOI_PAGE_H

extern const unsigned char ptoi_page[];

#endif /* PTOI_PAGE_H */
