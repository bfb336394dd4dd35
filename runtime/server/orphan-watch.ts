// A model server whose agent is gone for good must not hold memory for ever: silence for so long ends it.
export interface Silence {
  readonly silenceMs: number;
}

/** Calls back once; returns a stop. `timeoutMs` 0 = never. */
export function watchForOrphan(state: Silence, timeoutMs: number, onOrphan: () => void): () => void {
  if (timeoutMs === 0) return () => {};
  let timer: NodeJS.Timeout;
  const look = () => {
    const left = timeoutMs - state.silenceMs;
    if (left <= 0) onOrphan();
    else timer = setTimeout(look, left);
  };
  timer = setTimeout(look, timeoutMs);
  return () => clearTimeout(timer);
}
