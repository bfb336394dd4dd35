// Coded audio -> mono samples by a child process that reads and writes pipes alone. The demuxer is the one the first bytes
// name: a playlist that points at other files or addresses is never followed.
import { spawn } from "node:child_process";
import type { AudioContainer } from "./container.ts";
import { Recording } from "./recording.ts";
import { AudioRefusal } from "./sound.ts";

const demuxers: Readonly<Record<AudioContainer, string>> = {
  wav: "wav",
  mp3: "mp3",
  flac: "flac",
  ogg: "ogg",
  mp4: "mov",
  matroska: "matroska",
  aac: "aac",
};

export interface DecodeLimits {
  /** Longer audio is refused. */
  readonly maxSeconds: number;
  /** Bound of the decoder's own work, in ms. */
  readonly timeoutMs: number;
}

/** Throws AudioRefusal; the signal's reason when it aborts. */
export async function decodeByFfmpeg(
  program: string,
  bytes: Buffer,
  container: AudioContainer,
  rate: number,
  limits: DecodeLimits,
  signal: AbortSignal,
): Promise<Recording> {
  signal.throwIfAborted();
  const input = ["-protocol_whitelist", "cache,pipe", "-f", demuxers[container], "-i", "cache:pipe:0"];
  const output = ["-map", "0:a:0", "-ac", "1", "-ar", `${rate}`, "-f", "s16le", "pipe:1"];
  const args = ["-nostdin", "-hide_banner", "-v", "error", "-threads", "1", ...input, ...output];
  // Only what a program needs to find its libraries: nothing of this process's environment is the decoder's business.
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env: { PATH: process.env["PATH"] ?? "" } });
  const maxBytes = Math.ceil(limits.maxSeconds * rate) * 2;
  const recording = new Recording(rate);
  let size = 0;
  let errors = "";
  let refusal: AudioRefusal | undefined;
  const end = (why?: AudioRefusal) => {
    refusal ??= why;
    child.kill("SIGKILL");
  };
  const onAbort = () => end();
  signal.addEventListener("abort", onAbort, { once: true });
  const seconds = Math.round(limits.timeoutMs / 1000);
  const slow = () =>
    new AudioRefusal("too_long", `the audio could not be decoded within ${seconds} s; send less of it`);
  const timer = setTimeout(() => end(slow()), limits.timeoutMs);
  try {
    child.stdout.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) end(tooLong(limits.maxSeconds));
      else recording.append(chunk);
    });
    child.stderr.on("data", (chunk: Buffer) => {
      errors = (errors + chunk.toString("utf8")).slice(-2000);
    });
    // A decoder that has what it needs, or was ended, reads no further.
    child.stdin.on("error", () => {});
    child.stdin.end(bytes);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    });
    signal.throwIfAborted();
    if (refusal) throw refusal;
    // Audio that breaks off in the middle is worth what was heard of it, as players do.
    if (code !== 0 && size === 0) throw unreadable(container, errors);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw noDecoder(container);
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
  if (recording.length === 0) throw unreadable(container, "there is no audio in it");
  return recording;
}

export function tooLong(maxSeconds: number): AudioRefusal {
  const minutes = Math.floor(maxSeconds / 60);
  return new AudioRefusal("too_long", `the audio is longer than ${minutes} minutes; send it in parts`);
}

function unreadable(container: AudioContainer, detail: string): AudioRefusal {
  const text = `the ${container} audio cannot be decoded; check that the file is whole and holds sound`;
  return new AudioRefusal("unreadable", text, { cause: new Error(detail) });
}

function noDecoder(container: AudioContainer): AudioRefusal {
  return new AudioRefusal(
    "no_decoder",
    `this server can read WAV alone, not ${container}: ffmpeg is not installed on it`,
  );
}
