/* page.h - the HTML page that shows a trace (page.html). The build embeds it into the library, with
 * a mark where the trace is inserted, and a NUL at its end. */
#ifndef PTOI_PAGE_H
#define PTOI_PAGE_H

extern const unsigned char ptoi_page[];

#endif /* PTOI_PAGE_H */
