// What a rank of test_processes does: it opens its communicator, plays one scenario, and prints one
// line about how it ended.
#ifndef TESTS_COMM_SCENARIOS_H
#define TESTS_COMM_SCENARIOS_H

int run_scenario(const char *scenario, const char *timeout); // returns the exit code

#endif
