# cmake -DROOT=folder -DFILES=list -DSANITIZE=what -DOUT=file -P hash_emitter.cmake: writes the definition of emitter_id()
# (codegen/emitter_id.h), a hash of the files, of their paths from ROOT, and of the sanitizer that generated code is made for.
set(hashes "${SANITIZE}\n")
list(SORT FILES)
foreach(file IN LISTS FILES)
    file(SHA256 "${file}" hash)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${ROOT}")
    string(APPEND hashes "${file} ${hash}\n")
endforeach()
string(SHA256 id "${hashes}")
string(SUBSTRING "${id}" 0 16 id)
file(WRITE "${OUT}" "#include \"codegen/emitter_id.h\"

namespace lz::codegen {

std::string_view emitter_id() {
    return \"${id}\";
}

} // namespace lz::codegen
")
