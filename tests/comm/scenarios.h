// What a rank of test_processes does: it opens its communicator, plays one scenario and prints one
// line about its end.
#ifndef TESTS_COMM_SCENARIOS_H
#define TESTS_COMM_SCENARIOS_H

int run_scenario(const char *scenario, const char *timeout); // the exit code

#endif
