// Reason for which a model could not be loaded: one sentence that starts with the cause.
export class LoadFailure extends Error {
  constructor(cause: string, detail: string, options: { cause?: unknown } = {}) {
    super(detail === "" ? cause : `${cause}: ${detail}`, options);
    this.name = "LoadFailure";
  }
}

const causes: readonly (readonly [pattern: RegExp, cause: string, advice: string])[] = [
  [
    /unknown (model )?architecture|unsupported (model )?architecture/i,
    "unsupported architecture",
    "this build of llama.cpp does not know the model",
  ],
  [
    /insufficient|out of memory|failed to allocate|not enough memory|cannot allocate/i,
    "out of memory",
    "give the instance more memory, a shorter context or a smaller max_batch_size",
  ],
  [
    /invalid magic|bad magic|not a gguf|unsupported gguf/i,
    "not a GGUF file",
    "the file does not begin like a GGUF file",
  ],
  [
    /tensor .* (data )?is not within|corrupted|incomplete|unexpected end|out of bounds|truncated|failed to read/i,
    "damaged GGUF file",
    "the file ends too early or is broken; download it again",
  ],
  [
    /no ?binary|NoBinaryFound/i,
    "no llama.cpp build for this machine",
    "install the node-llama-cpp package of this platform",
  ],
];

/** `lines` are llama.cpp's own warnings and errors of this load. */
export function loadFailure(error: unknown, lines: readonly string[]): LoadFailure {
  if (error instanceof LoadFailure) return error;
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const words = [message, ...lines];
  for (const [pattern, cause, advice] of causes) {
    const line = words.find((text) => pattern.test(text));
    if (line !== undefined) return new LoadFailure(cause, `${advice} (${oneLine(line)})`, { cause: error });
  }
  return new LoadFailure("model could not be loaded", oneLine(lines.at(-1) ?? message), { cause: error });
}

/** Failure to open a file of the model. */
export function notOpened(path: string, error: NodeJS.ErrnoException): LoadFailure {
  const cause = error.code === "ENOENT" ? "model file not found" : "model file not readable";
  return new LoadFailure(cause, path, { cause: error });
}

const oneLine = (text: string) => text.replace(/\s+/g, " ").trim().slice(0, 300);
