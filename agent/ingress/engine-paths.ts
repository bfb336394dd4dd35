// What may be asked of an engine; nothing else of it is reachable.

const enginePaths: ReadonlySet<string> = new Set([
  "/v1/completions",
  "/v1/chat/completions",
  "/v1/embeddings",
  "/v1/rerank",
  "/v1/score",
  "/v1/classify",
  "/v1/audio/speech",
  "/v1/audio/transcriptions",
  "/v1/audio/translations",
  // Recordings of a speaker -> a blend of the voices of our own runtime.
  "/v1/audio/voices",
  "/v1/images/generations",
  "/v1/images/edits",
  "/v1/images/variations",
  // Every other task of our own runtime.
  "/v1/infer",
]);

export const isEnginePath = (path: string): boolean => enginePaths.has(path);

/** Audio and pictures: their bytes pass as they come. Everything else that is no event stream is one whole answer. */
export function isBinary(contentType: string): boolean {
  return /^(audio|image|video)\/|^application\/octet-stream\b/.test(contentType);
}
