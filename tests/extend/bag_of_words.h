// An architecture as a user of the library writes it: a list of units, here two that classify bags
// of words. It needs only public headers.
#ifndef TEST_EXTEND_BAG_OF_WORDS_H
#define TEST_EXTEND_BAG_OF_WORDS_H

#include <zero/model.h>

enum { BAG_VOCABULARY = 29, BAG_WIDTH = 16 }; // its classes are the vocabulary

extern const zero_model bag_of_words;

#endif
