#pragma once
/// What the expressions of rows are written with: include it last, in files of rows only.

// `P0`: an operand, tensor or number; `T0`: a tensor; `M0`: a tensor that is moved from; `N0`: a number that
// is no operand; `I0`: an integer; `B0`: a bool; `S0`: sizes; `D0`: a dtype; `V0`: a device; `A0`: a part.
#define P0 c.operand(0)
#define P1 c.operand(1)
#define P2 c.operand(2)
#define Q0 c.temporary(0)
#define T0 c.tensor(0)
#define T1 c.tensor(1)
#define T2 c.tensor(2)
#define M0 std::move(c.tensor(0))
#define N0 c.number(0)
#define N1 c.number(1)
#define I0 c.integer(0)
#define I1 c.integer(1)
#define I2 c.integer(2)
#define I3 c.integer(3)
#define S0 c.sizes(0)
#define S1 c.sizes(1)
#define A0 c.part()
#define L0 c.tensors()
#define D0 c.dtype()
#define V0 c.device()
#define B0 (c.integer(0) != 0)
#define B1 (c.integer(1) != 0)
#define B2 (c.integer(2) != 0)

// Text and code of one expression.
#define LZ_CALL(...) #__VA_ARGS__, [](Call &c) { c.out(__VA_ARGS__); }
