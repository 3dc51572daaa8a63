#pragma once
/// Made by fit.py: coefficients from the lowest degree on.

namespace lz::ir::math {

inline constexpr double kExpF32[] = {0x1.fffffc0000000p-2, 0x1.55548c0000000p-3, 0x1.55585a0000000p-5,
                                     0x1.123dec0000000p-7, 0x1.6ac5820000000p-10}; // error 2^-28.2
inline constexpr double kExpm1F32[] = {0x1.0000000000000p-1,  0x1.5555540000000p-3,
                                       0x1.5554ea0000000p-5,  0x1.1113aa0000000p-7,
                                       0x1.6d4c900000000p-10, 0x1.9c64320000000p-13}; // error 2^-31.0
inline constexpr double kExp2F32[] = {0x1.62e4320000000p-1,  0x1.ebfbe60000000p-3,
                                      0x1.c6ada60000000p-5,  0x1.3b21cc0000000p-7,
                                      0x1.5fbf3a0000000p-10, 0x1.4bcea60000000p-13}; // error 2^-27.5
inline constexpr double kLogF32[] = {0x1.5555060000000p-2,  -0x1.fffef00000000p-3, 0x1.99d0260000000p-3,
                                     -0x1.5597580000000p-3, 0x1.1ed54c0000000p-3,  -0x1.f442940000000p-4,
                                     0x1.1e80c40000000p-3,  -0x1.04825a0000000p-3}; // error 2^-27.1
inline constexpr double kPowLogPairF32[] = {
    0x1.5555560000000p-2,  -0x1.ffff020000000p-3, 0x1.99985e0000000p-3,
    -0x1.559bc80000000p-3, 0x1.24d7920000000p-3,  -0x1.f331480000000p-4,
    0x1.bb4ebe0000000p-4,  -0x1.07eaa80000000p-3, 0x1.e016f60000000p-4}; // error 2^-30.0
inline constexpr double kLog1pF32[] = {0x1.5555a40000000p-2,  -0x1.0000460000000p-2, 0x1.9969560000000p-3,
                                       -0x1.54f17c0000000p-3, 0x1.2893c20000000p-3,  -0x1.0d737e0000000p-3,
                                       0x1.aaf07a0000000p-4,  -0x1.6d782a0000000p-5}; // error 2^-27.4
inline constexpr double kLog2F32[] = {-0x1.7154780000000p-1, 0x1.ec70a00000000p-2,  -0x1.7152760000000p-2,
                                      0x1.2774ce0000000p-2,  -0x1.ed1e9a0000000p-3, 0x1.a6e4420000000p-3,
                                      -0x1.65039a0000000p-3, 0x1.398e580000000p-3,  -0x1.883d380000000p-3,
                                      0x1.7751560000000p-3}; // error 2^-29.7
inline constexpr double kLog10F32[] = {0x1.287a320000000p-3,  -0x1.bcb6c60000000p-4, 0x1.63f5780000000p-4,
                                       -0x1.28b9500000000p-4, 0x1.f24c600000000p-5,  -0x1.b17c0a0000000p-5,
                                       0x1.f1867a0000000p-5,  -0x1.cac5220000000p-5}; // error 2^-27.5
inline constexpr double kSinF32[] = {-0x1.5555560000000p-3, 0x1.1111060000000p-7, -0x1.a015d80000000p-13,
                                     0x1.71349c0000000p-19, -0x1.959a760000000p-26}; // error 2^-25.0
inline constexpr double kSinNearF32[] = {-0x1.55554c0000000p-3, 0x1.110ed40000000p-7, -0x1.9f6f200000000p-13,
                                         0x1.5da7f00000000p-19}; // error 2^-27.2
inline constexpr double kTanF32[] = {0x1.5555600000000p-2, 0x1.110d9e0000000p-3, 0x1.bada9a0000000p-5,
                                     0x1.5caefc0000000p-6, 0x1.63521e0000000p-7, 0x1.2f12d20000000p-14,
                                     0x1.1f913a0000000p-8}; // error 2^-29.4
inline constexpr double kAsinF32[] = {0x1.5555c80000000p-3, 0x1.3302040000000p-4, 0x1.747bb80000000p-5,
                                      0x1.8c3e540000000p-6, 0x1.595c5a0000000p-5}; // error 2^-27.6
inline constexpr double kAtanF32[] = {-0x1.5554dc0000000p-2, 0x1.9978ea0000000p-3,  -0x1.230a840000000p-3,
                                      0x1.b4de620000000p-4,  -0x1.3550b20000000p-4, 0x1.61ef920000000p-5,
                                      -0x1.0c1a940000000p-6, 0x1.7eafb60000000p-9}; // error 2^-25.8
inline constexpr double kSinhF32[] = {0x1.5555560000000p-3, 0x1.1111340000000p-7, 0x1.9ffe940000000p-13,
                                      0x1.7a15980000000p-19}; // error 2^-27.5
inline constexpr double kInverseF32[] = {0x1.0f84680000000p+2, -0x1.745e240000000p+2,
                                         0x1.4afe580000000p+1}; // error 2^-6.6
inline constexpr double kErfLogF32[] = {
    0x1.06eba80000000p-3,   0x1.45f3000000000p-1,   0x1.a4f8c40000000p-4,
    -0x1.39b7b40000000p-6,  -0x1.63c0560000000p-13, 0x1.b757500000000p-10,
    -0x1.4e4af40000000p-11, 0x1.f2f4c60000000p-14,  -0x1.3b7c3c0000000p-17}; // error 2^-27.8
inline constexpr double kExpm1DownF32[] = {0x1.ffffea0000000p-2, 0x1.55547c0000000p-3, 0x1.5568880000000p-5,
                                           0x1.1248200000000p-7, 0x1.5e08f60000000p-10}; // error 2^-26.1
inline constexpr double kExpF64[] = {0x1.000000000000ap-1,  0x1.5555555555502p-3,  0x1.55555555505ffp-5,
                                     0x1.1111111125203p-7,  0x1.6c16c184af9dbp-10, 0x1.a01a013acd1d4p-13,
                                     0x1.a01998e89403bp-16, 0x1.71df08867b20fp-19, 0x1.28ae35a5938dap-22,
                                     0x1.ad9078ac87abbp-26}; // error 2^-57.0
inline constexpr double kExpm1F64[] = {0x1.0000000000001p-1,  0x1.5555555555557p-3,  0x1.5555555554b10p-5,
                                       0x1.1111111110353p-7,  0x1.6c16c16fd55ffp-10, 0x1.a01a01aa66da0p-13,
                                       0x1.a019efc774fa1p-16, 0x1.71de06a2af5bdp-19, 0x1.280a23c1e933dp-22,
                                       0x1.af4597cb3571cp-26, 0x1.cdd6de94ce975p-30}; // error 2^-58.0
inline constexpr double kExp2F64[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d6p-5,
    0x1.3b2ab6fba4ea8p-7,  0x1.5d87fe78a130fp-10, 0x1.430912f859959p-13,
    0x1.ffcbfc7ac2c74p-17, 0x1.62c0229a620f2p-20, 0x1.b524d0ebd405cp-24,
    0x1.e4cd9d88082d3p-28, 0x1.ea1420c69e833p-32, 0x1.c6d9949b9ab3cp-36}; // error 2^-55.6
inline constexpr double kExp2ShortF64[] = {
    0x1.62e42fefa3a28p-1,  0x1.ebfbdff82c61fp-3,  0x1.c6b08d70395a6p-5,  0x1.3b2ab6fb81dcfp-7,
    0x1.5d87fea49ebc8p-10, 0x1.4309138967628p-13, 0x1.ffcb3efdaab6dp-17, 0x1.62be6169b89f1p-20,
    0x1.b68a129d75122p-24, 0x1.e8c7872c48048p-28}; // error 2^-51.4
inline constexpr double kLogF64[] = {
    0x1.5555555555543p-2, -0x1.0000000000967p-2, 0x1.999999999e760p-3, -0x1.555555540c344p-3,
    0x1.2492492162c32p-3, -0x1.00000085d3793p-3, 0x1.c71c73c0e9bd9p-4, -0x1.999961f75bfd2p-4,
    0x1.745cbf51b94dfp-4, -0x1.555c09c7115b5p-4, 0x1.3b1d011857d40p-4, -0x1.2413a7286aa5dp-4,
    0x1.1071dff7db169p-4, -0x1.05c6e6830aca2p-4, 0x1.ef49c2368fd26p-5, -0x1.769792eba7e17p-5,
    0x1.57d1dc0dea296p-5, -0x1.615d139465d6bp-4, 0x1.5acac271e4220p-4}; // error 2^-56.4
inline constexpr double kLog1pF64[] = {0x1.555555555554ap-2,  -0x1.0000000000159p-2, 0x1.999999999c769p-3,
                                       -0x1.555555552be3cp-3, 0x1.249249229e338p-3,  -0x1.0000000d2b652p-3,
                                       0x1.c71c730dac5f2p-4,  -0x1.9999967dfad63p-4, 0x1.745cde30677e9p-4,
                                       -0x1.55554a27cc692p-4, 0x1.3b191819d139cp-4,  -0x1.249d9daca64edp-4,
                                       0x1.10d294a6b70fcp-4,  -0x1.fdebcd7309323p-5, 0x1.e2a6298ef2e53p-5,
                                       -0x1.d95ff4297c9afp-5, 0x1.cfb57373844e2p-5,  -0x1.82e2be57004ecp-5,
                                       0x1.b3c95ca72d916p-6,  -0x1.d0724058ee22ap-8}; // error 2^-58.6
inline constexpr double kLog2F64[] = {-0x1.71547652b82f7p-1, 0x1.ec709dc3a03f6p-2,  -0x1.71547652ba6b9p-2,
                                      0x1.2776c50efb077p-2,  -0x1.ec709dc05071fp-3, 0x1.a61762a5a0a43p-3,
                                      -0x1.71547772a5e7bp-3, 0x1.484b14974babfp-3,  -0x1.27768f6847676p-3,
                                      0x1.0c9a5e88e6bb9p-3,  -0x1.ec7c994bff32ep-4, 0x1.c6985957f97d9p-4,
                                      -0x1.a541c94270170p-4, 0x1.894a55a31ae35p-4,  -0x1.7aa1f51ae6640p-4,
                                      0x1.63591cd8fafbap-4,  -0x1.09f02d9945cdfp-4, 0x1.00b2ef7472547p-4,
                                      -0x1.02e27c3b1421bp-3, 0x1.e3ba45e010a06p-4}; // error 2^-56.7
inline constexpr double kLog10F64[] = {-0x1.bcb7b1526e506p-3, 0x1.287a7636f435ap-3,  -0x1.bcb7b15270ea7p-4,
                                       0x1.63c62775269cfp-4,  -0x1.287a763503f5ep-4, 0x1.fc3fa6129e56cp-5,
                                       -0x1.bcb7b2a52af84p-5, 0x1.8b4df3d5aa3f6p-5,  -0x1.63c5e80ee3c6bp-5,
                                       0x1.436e25c2b4f56p-5,  -0x1.288191d4eae22p-5, 0x1.11b167201b866p-5,
                                       -0x1.fb415b2cbf8cbp-6, 0x1.d99667f6644fcp-6,  -0x1.c7d3a8dcbe01fp-6,
                                       0x1.abb3abbe167fep-6,  -0x1.40a21a0f92689p-6, 0x1.3601f6c6ff33cp-6,
                                       -0x1.37573cfbba0e2p-5, 0x1.22497222d114cp-5}; // error 2^-56.5
inline constexpr double kPowLogF64[] = {0x1.a61762a7ade33p-2, 0x1.484b13d7d1df2p-2, 0x1.0c9a848d0e314p-2,
                                        0x1.c68f5f8cc899bp-3, 0x1.89f1ba76d799cp-3, 0x1.5bddc6cacc9d6p-3,
                                        0x1.31af3934241f6p-3, 0x1.545983e9ee848p-3}; // error 2^-75.2
inline constexpr double kPowLogF32[] = {0x1.71547652bbdddp+0,  -0x1.7154764b331aep-1, 0x1.ec709d9035994p-2,
                                        -0x1.715484fb4b6dfp-2, 0x1.2776e21ab6657p-2,  -0x1.ec687b726b738p-3,
                                        0x1.a60b2c7483bb5p-3,  -0x1.724a766137026p-3, 0x1.49811cbc7c191p-3,
                                        -0x1.19851a1660c46p-3, 0x1.fa20a40de87fbp-4,  -0x1.542f960568d3ap-3,
                                        0x1.429edbd08efefp-3}; // error 2^-35.6
inline constexpr double kSinNearF64[] = {-0x1.5555555555555p-3,  0x1.11111111110c8p-7,
                                         -0x1.a01a01a014e07p-13, 0x1.71de3a52a9d24p-19,
                                         -0x1.ae6454daae2e4p-26, 0x1.6123cf0065bc7p-33,
                                         -0x1.ae441c9a67d58p-41, 0x1.88444e00bd7b8p-49}; // error 2^-61.4
inline constexpr double kSinqF64[] = {-0x1.5555555555548p-3,  0x1.111111110f72fp-7,
                                      -0x1.a01a019bea03fp-13, 0x1.71de3556d7bedp-19,
                                      -0x1.ae5e4d9dcbe85p-26, 0x1.5d8c32a688c89p-33}; // error 2^-57.8
inline constexpr double kCosqF64[] = {0x1.555555555554bp-5,  -0x1.6c16c16c15013p-10,
                                      0x1.a01a019c8ee06p-16, -0x1.27e4f7f15b821p-22,
                                      0x1.1ee9dbaa34c80p-29, -0x1.8fa671bfae860p-37}; // error 2^-63.9
inline constexpr double kTanF64[] = {
    0x1.555555555555dp-2,  0x1.11111111106dap-3,   0x1.ba1ba1bab2707p-5,  0x1.664f485fb8c92p-6,
    0x1.226e3a3121042p-7,  0x1.d6d2f47375d95p-9,   0x1.7db0dcb90d55fp-10, 0x1.34c2f6cac2adfp-11,
    0x1.fecda51b92bd6p-13, 0x1.6065247a8a038p-14,  0x1.1679df9adfcc5p-14, -0x1.9c9ed9622c6fap-16,
    0x1.90c0de64a3182p-15, -0x1.901f739990b4fp-16, 0x1.45a559a3bee11p-17}; // error 2^-60.0
inline constexpr double kAsinF64[] = {0x1.5555555555577p-3, 0x1.333333332e133p-4, 0x1.6db6db721248fp-5,
                                      0x1.f1c71a94fdc8ap-6, 0x1.6e8bdedfb26dfp-6, 0x1.1c49f04cd76f1p-6,
                                      0x1.ca1f92e44c6ffp-7, 0x1.758530c54bb8fp-7, 0x1.613fb080d14d6p-7,
                                      0x1.e5b143945ee9ep-9, 0x1.63b8304b001f8p-6, -0x1.582f4e92fb014p-6,
                                      0x1.0b59c64a5dc6cp-5}; // error 2^-59.8
inline constexpr double kAtanF64[] = {-0x1.5555555555526p-2,  0x1.99999999955b3p-3,  -0x1.249249237f554p-3,
                                      0x1.c71c717fcf492p-4,   -0x1.745d11ae78888p-4, 0x1.3b13669a9b234p-4,
                                      -0x1.110e512b61baap-4,  0x1.e1bba662d73f4p-5,  -0x1.ae5e6ec69de48p-5,
                                      0x1.82daae1dbe4d7p-5,   -0x1.59a31433bc9e4p-5, 0x1.2c2afc9ce9077p-5,
                                      -0x1.e9e8d08713058p-6,  0x1.681d4f396ccc4p-6,  -0x1.c73cc81fe44f6p-7,
                                      0x1.d71bfa0413b13p-8,   -0x1.796907fee141cp-9, 0x1.b28a23429e240p-11,
                                      -0x1.3db04d1c6c295p-13, 0x1.b902084f19a89p-17}; // error 2^-56.4
inline constexpr double kSinhF64[] = {0x1.5555555555555p-3,  0x1.1111111111111p-7,  0x1.a01a01a019fc1p-13,
                                      0x1.71de3a5573f78p-19, 0x1.ae6456741b9f5p-26, 0x1.61246afa2626fp-33,
                                      0x1.ae756e9ccc920p-41, 0x1.9a79403bc89efp-49}; // error 2^-56.8
inline constexpr double kTanhF64[] = {-0x1.555555555554cp-2,  0x1.1111111110393p-3,  -0x1.ba1ba1b94245fp-5,
                                      0x1.664f484c1251fp-6,   -0x1.226e2d5ac6fe8p-7, 0x1.d6d2555830f69p-9,
                                      -0x1.7d8c44df133c3p-10, 0x1.34663ab069f86p-11, -0x1.e842701542e98p-13,
                                      0x1.5a109a5773683p-14,  -0x1.3ea9cab51f672p-16}; // error 2^-59.6
inline constexpr double kErfSmallF64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e7p-2,  0x1.ce2f21a042be2p-4,  -0x1.b82ce31288b47p-6,
    0x1.565bcd0e6a2c6p-8,  -0x1.c02db40035516p-11, 0x1.f9a326f79295ap-14, -0x1.f4d25bf6df5f6p-17,
    0x1.b9e6c357a1ecap-20, -0x1.5f73c0d024f97p-23, 0x1.fcbaf8aabacc0p-27, -0x1.517b6a5e0d8a7p-30,
    0x1.9a0327c25d7ffp-34, -0x1.b3ce0aa8c2214p-38, 0x1.3b6f477cc73e6p-42}; // error 2^-56.3
inline constexpr double kErfLargeF64[] = {
    0x1.73d4f160732ecp-21,  0x1.a0be0e0e844e0p+0,   0x1.d6432e1f5b6c6p-1,   0x1.2f75714d42474p-3,
    -0x1.c0fa40a51ac36p-6,  -0x1.321a71adb5382p-11, 0x1.6927c3126cb80p-9,   -0x1.21a5b1412bc6fp-10,
    0x1.8fa98e0f1e91ap-13,  0x1.06ba20fb6920ep-15,  -0x1.1aec373a08693p-15, 0x1.abae708d8eed6p-17,
    -0x1.a52161ce21628p-19, 0x1.2684b93dcaca4p-21,  -0x1.253cd64dc71b1p-24, 0x1.8e0d3b56e7c30p-28,
    -0x1.4b734321b973dp-32, 0x1.ffee8b59e9ac5p-38}; // error 2^-56.4
inline constexpr double kExp2F16[] = {0x1.ffffe80000000p-1, 0x1.62e0ca0000000p-1, 0x1.ec05e20000000p-3,
                                      0x1.ca1df00000000p-5, 0x1.39f9b00000000p-7}; // error 2^-18.5
inline constexpr double kLogisticF16[] = {0x1.fffeda0000000p-1,  -0x1.ff8e4c0000000p-1, 0x1.f8863a0000000p-1,
                                          -0x1.ce59f80000000p-1, 0x1.55e1a80000000p-1,  -0x1.4a68fe0000000p-2,
                                          0x1.25b4d00000000p-4}; // error 2^-16.8
inline constexpr double kTanhF16[] = {0x1.ba58260000000p-2,   -0x1.607b7a0000000p-3, 0x1.d8f4160000000p-5,
                                      -0x1.bca76c0000000p-7,  0x1.8a26e60000000p-11, 0x1.e171720000000p-11,
                                      -0x1.a3c2ec0000000p-11, 0x1.5a9fde0000000p-11, -0x1.a814ee0000000p-13,
                                      -0x1.13f3c80000000p-14, 0x1.4d60ac0000000p-15, 0x1.130f180000000p-21,
                                      -0x1.c355480000000p-20}; // error 2^-15.1
inline constexpr double kErfF16[] = {-0x1.81154e0000000p-2,  0x1.cce92a0000000p-4,   -0x1.aff7b00000000p-6,
                                     0x1.3bbdc60000000p-8,   -0x1.5bc09e0000000p-11, 0x1.0b44f80000000p-14,
                                     -0x1.f55f300000000p-19, 0x1.a980680000000p-24}; // error 2^-17.7
inline constexpr double kExp2Bf16[] = {0x1.fff68a0000000p-1, 0x1.62f32e0000000p-1, 0x1.f0e08a0000000p-3,
                                       0x1.c3f4fe0000000p-5}; // error 2^-13.7
inline constexpr double kLogisticBf16[] = {0x1.fff9520000000p-1, -0x1.fe180e0000000p-1,
                                           0x1.e827ee0000000p-1, -0x1.8a8aee0000000p-1,
                                           0x1.abfbfe0000000p-2, -0x1.abfcd60000000p-4}; // error 2^-14.3
inline constexpr double kTanhBf16[] = {
    0x1.ffecbc0000000p-1, 0x1.20b29a0000000p-8,  -0x1.68b1220000000p-2,
    0x1.3890f40000000p-7, 0x1.9d970c0000000p-3,  -0x1.1c17a40000000p-3,
    0x1.61fc0e0000000p-5, -0x1.b841bc0000000p-8, 0x1.bb1eaa0000000p-12}; // error 2^-12.7
inline constexpr double kErfBf16[] = {-0x1.7f34d80000000p-2, 0x1.b7a5b80000000p-4, -0x1.5d6fee0000000p-6,
                                      0x1.4c500a0000000p-9, -0x1.151ef40000000p-13}; // error 2^-12.3

} // namespace lz::ir::math
