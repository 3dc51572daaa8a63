#pragma once
/// Constants that a program file leaves in safetensors files: which ones are there when it is saved, and
/// where they are when it is loaded.
///
/// A reference names the file (relative to the folder of the program file), the tensor, and the XXH3-128 of
/// its elements. Where the elements lie in the file is not a part of it: the header says so, and a file that
/// was written again with other text or in another order is as good. A hash of the header would be cheaper,
/// and says nothing: weights that were trained further have the same header. Nor does the age of the file,
/// which every copy changes. The hash of each tensor that is used costs one read of it, which is less than
/// what constants of the program file itself cost (they are hashed and copied); who wants it lazier than that
/// says `check = false`.
///
/// No matter whose a weights file is, and who may write it: it holds no code, and with the hash its elements
/// are those that the program was saved with.

#include "ir/saved/saved_program.h"

#include <memory>
#include <string>
#include <vector>

namespace lz::runtime {

/// Lets constants of `program` that are in the safetensors file `weights` (or in one of those that an index
/// of several files names), with the same dtype, shape and elements, be references to it; others stay what
/// they are. `path`: where the program file is to be written. Where several tensors are equal, each is taken
/// once before one is taken again. Throws Failure(Io), a sentence that goes on after the program file's name,
/// where the file cannot be read; and Failure(State), a whole one, where none of the constants is there or
/// the program would be written over the file. Then nothing has changed.
void refer_to_weights(ir::SavedProgram &program, const std::string &path, const std::string &weights);

/// How constants that are in other files are found.
struct WeightsPlace {
    std::string program; ///< the program file's path
    std::string weights; ///< a folder, or the one file; empty: beside the program file
    bool check = true;   ///< the elements, by their hash
    bool map = true;     ///< pages of the file, where addresses suit the dtype; false: copies
};

/// The memory of constants, in their order; null: it is the program file's. `bytes` of those that are
/// references become that. Throws Failure(Io), a sentence that goes on after the program file's name, where a
/// file or a tensor is not there or is another one than it was.
std::vector<std::shared_ptr<const void>> find_weights(ir::SavedProgram &program, const WeightsPlace &place);

} // namespace lz::runtime
