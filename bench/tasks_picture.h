/* tasks_picture.h - the comparison of bench_tasks as a picture (SVG): bars for each pattern. */
#ifndef PTO_TASKS_PICTURE_H
#define PTO_TASKS_PICTURE_H

#include <math.h>

#include "tasks_compare.h"

enum { BAR_WIDTH = 22, GROUP_GAP = 26, LEFT = 56, TOP = 64, HEIGHT = 280, BOTTOM = 40 };

static const char *const bar_colours[RUNTIMES] = {"#0b6e4f", "#6bbf9c", "#a9cdbd",
                                                  "#c05746", "#d9a441", "#7a6c9d",
                                                  "#4a7fb5", "#cccccc", "#aaaaaa"};

/* Height of a bar, from 0 to 1. METG covers three powers of ten: logarithmic. */
static double bar_part(int row, double figure, double most)
{
    const double least = 10;
    if (row != METG) {
        return figure / most;
    }
    return figure > least ? log(figure / least) / log(1e5 / least) : 0;
}

static void draw_text(FILE *f, double x, double y, const char *more, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, more, text);
}

static void draw_bar(FILE *f, const comparison *c, int r, int row, double x, double most)
{
    const double figure = c->all[r][row].median;
    const double part = figure > 0 ? bar_part(row, figure, most) : 0;
    const double height = HEIGHT * (part < 1 ? part : 1), y = TOP + HEIGHT - height;
    char text[32];
    if (row == METG && figure >= 10000) {
        snprintf(text, sizeof text, "%.0fk", figure / 1000);
    } else {
        snprintf(text, sizeof text, figure <= 0 ? "-" : row == METG ? "%.0f" : "%.1f", figure);
    }
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\"/>\n", x, y,
            BAR_WIDTH - 2, height, bar_colours[r]);
    draw_text(f, x + BAR_WIDTH / 2.0 - 1, y - 4, "text-anchor=\"middle\" font-size=\"9\"", text);
}

static bool picture_write(const comparison *c, const char *path)
{
    const int group = RUNTIMES * BAR_WIDTH + GROUP_GAP, width = LEFT + ROWS * group + GROUP_GAP;
    double most = 1, x = LEFT;
    FILE *f = fopen(path, "w");
    if (!f) {
        return false;
    }
    for (int i = 0; i < RUNTIMES * PATTERNS; i++) {
        most = fmax(most, c->all[i / PATTERNS][i % PATTERNS].median);
    }
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, TOP + HEIGHT + BOTTOM, width, TOP + HEIGHT + BOTTOM);
    draw_text(f, LEFT, 20, "font-size=\"14\" font-weight=\"bold\"",
              "Mtasks/s with empty bodies; PTO inline and the grey ones run them on the submitting "
              "thread (more is better); METG in ns, logarithmic (less is better)");
    for (int r = 0; r < RUNTIMES; r++) {
        char text[64];
        snprintf(text, sizeof text, "%s%s", r < PLACES ? "PTO, " : "", runtime_name(r));
        fprintf(f, "<rect x=\"%d\" y=\"32\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                LEFT + r * 104, bar_colours[r]);
        draw_text(f, LEFT + r * 104 + 18, 42, "", text);
    }
    for (int i = 0; i <= 4; i++) {
        char text[32];
        const double y = TOP + HEIGHT - HEIGHT * i / 4.0;
        snprintf(text, sizeof text, "%.1f", most * i / 4.0);
        fprintf(f, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, LEFT + PATTERNS * group);
        draw_text(f, LEFT - 6, y + 4, "text-anchor=\"end\"", text);
    }
    for (int row = 0; row < ROWS; row++) {
        char text[64];
        x = LEFT + row * group + GROUP_GAP / 2.0;
        for (int r = 0; r < RUNTIMES; r++) {
            draw_bar(f, c, r, row, x + r * BAR_WIDTH, most);
        }
        snprintf(text, sizeof text, "%s %s", row_name(row),
                 row == METG ? "on P3" : patterns[row].text);
        draw_text(f, x + RUNTIMES * BAR_WIDTH / 2.0, TOP + HEIGHT + 18, "text-anchor=\"middle\"",
                  text);
    }
    fprintf(f, "</svg>\n");
    return fclose(f) == 0;
}

#endif /* PTO_TASKS_PICTURE_H */
