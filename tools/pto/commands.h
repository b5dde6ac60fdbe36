/* commands.h - the subcommands of `pto` that have their own file. argv[0] is the name. The exit
 * status is 0, 1 for an error or a negative answer, 2 for bad input. */
#ifndef TOOL_COMMANDS_H
#define TOOL_COMMANDS_H

int command_trace(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_top(int argc, char **argv);
int command_worker(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_info(int argc, char **argv);
int command_bench(int argc, char **argv);

#endif /* TOOL_COMMANDS_H */
