/** Most requests that one instance may let in at once, by the interface; our own runtime has no more sequences either. */
export const maxBatchSize = 256;
