// A library that says it is NVRTC, new enough, and has nothing else: what a broken installation looks like.

extern "C" __attribute__((visibility("default"))) int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
