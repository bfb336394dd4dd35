// Decodes audio to mono samples in a child process that only uses pipes. The file's first bytes select the demuxer, so that a
// playlist with other files or addresses is never followed.
import { spawn } from "node:child_process";
import type { PcmSource } from "./recording.ts";
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

export interface FfmpegInput {
  readonly program: string;
  readonly bytes: Buffer;
  readonly container: AudioContainer;
  /** Samples per second of the output. */
  readonly rate: number;
  /** Bound of the time that callers wait for its output, in ms. */
  readonly timeoutMs: number;
}

/** The decoder pauses while it is not read. `next` throws AudioRefusal; the signal's reason when it aborts. */
export function openFfmpeg(
  { program, bytes, container, rate, timeoutMs }: FfmpegInput,
  signal: AbortSignal,
): PcmSource {
  const input = ["-protocol_whitelist", "cache,pipe", "-f", demuxers[container], "-i", "cache:pipe:0"];
  const output = ["-map", "0:a:0", "-ac", "1", "-ar", `${rate}`, "-f", "s16le", "pipe:1"];
  const args = ["-nostdin", "-hide_banner", "-v", "error", "-threads", "1", ...input, ...output];
  // Pass only what the program needs to find its libraries, nothing else of this process's environment.
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env: { PATH: process.env["PATH"] ?? "" } });
  const chunks = child.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  exited.catch(() => {});
  let size = 0;
  let errors = "";
  let leftMs = timeoutMs;
  let isSlow = false;
  const close = () => {
    signal.removeEventListener("abort", close);
    child.kill("SIGKILL");
    // An unread stream keeps its child's pipe open.
    child.stdout.destroy();
  };
  signal.addEventListener("abort", close, { once: true });
  child.stderr.on("data", (chunk: Buffer) => {
    errors = (errors + chunk.toString("utf8")).slice(-2000);
  });
  // A decoder that has what it needs, or was ended, reads no further.
  child.stdin.on("error", () => {});
  child.stdin.end(bytes);

  async function next(): Promise<Uint8Array | undefined> {
    signal.throwIfAborted();
    const startedAt = performance.now();
    const timer = setTimeout(() => {
      isSlow = true;
      close();
    }, leftMs);
    try {
      const { done, value } = await chunks.next();
      if (!done) {
        size += value.length;
        return value;
      }
    } catch {
      // The exit code of the child gives the reason.
    } finally {
      clearTimeout(timer);
      leftMs = Math.max(1, leftMs - (performance.now() - startedAt));
    }
    const code = await exited.catch((error: NodeJS.ErrnoException) => {
      throw error.code === "ENOENT" ? noDecoder(container) : error;
    });
    signal.throwIfAborted();
    if (isSlow) throw tooSlow(timeoutMs);
    // Use the decoded part of truncated audio, as players do.
    if (size === 0) throw unreadable(container, code === 0 ? "there is no audio in it" : errors);
    signal.removeEventListener("abort", close);
    return undefined;
  }
  return { next, close };
}

function tooSlow(timeoutMs: number): AudioRefusal {
  const seconds = Math.round(timeoutMs / 1000);
  return new AudioRefusal("too_long", `the audio could not be decoded within ${seconds} s; send less of it`);
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

export type AudioContainer = "wav" | "mp3" | "flac" | "ogg" | "mp4" | "matroska" | "aac";

/** Format by the first bytes: the name from the sender is not trusted. */
export function containerOf(bytes: Buffer): AudioContainer | undefined {
  const text = (start: number, end: number) => bytes.toString("latin1", start, end);
  if (text(0, 4) === "RIFF" && text(8, 12) === "WAVE") return "wav";
  if (text(0, 4) === "fLaC") return "flac";
  if (text(0, 4) === "OggS") return "ogg";
  if (text(4, 8) === "ftyp") return "mp4";
  if (bytes.length >= 4 && bytes.readUInt32BE(0) === 0x1a45dfa3) return "matroska";
  if (text(0, 3) === "ID3") return "mp3";
  if (bytes.length < 2 || bytes[0] !== 0xff) return undefined;
  const second = bytes[1] as number;
  // Both begin with twelve set bits; ADTS then has layer 0, which MPEG audio reserves.
  if ((second & 0xf6) === 0xf0) return "aac";
  return (second & 0xe0) === 0xe0 && (second & 0x06) !== 0 ? "mp3" : undefined;
}
