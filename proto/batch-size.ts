/** Maximum number of concurrent requests of one instance in the API; also the maximum number of sequences of our runtime. */
export const maxBatchSize = 256;
