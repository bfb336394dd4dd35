/** True for an error of the operating system, or of a program that passes its text on, because a disk or a quota is full. */
export function isDiskFull(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === "ENOSPC" || code === "EDQUOT" || /no space left on device|disk quota exceeded/i.test(String(message));
}
