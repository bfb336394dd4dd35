// Pulls an image through the engine, in layers, with progress in bytes. The engine checks every digest itself, so an image
// named by digest is that image or none.
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { DriverError } from "../reconcile/driver.ts";
import { saidBy, statusOf } from "./engine-fault.ts";

type OnProgress = (done: number, total: number) => void;

/** No-op if the image is present. After an abort the engine keeps complete layers. */
export async function pullImage(
  docker: Docker,
  image: string,
  onProgress: OnProgress,
  abortSignal: AbortSignal,
): Promise<void> {
  if (await isHere(docker, image, abortSignal)) return;
  // A name without an owner was built locally: no registry has it.
  if (!image.includes("/")) return;
  try {
    const lines = (await docker.createImage({ ...partsOf(image), abortSignal } as object)) as unknown as Readable;
    await follow(lines, onProgress, abortSignal);
  } catch (error) {
    abortSignal.throwIfAborted();
    throw pullFault(error, image);
  }
}

/** The engine expects name and version separately, with a digest in place of the tag. */
export function partsOf(image: string): { readonly fromImage: string; readonly tag: string } {
  const at = image.indexOf("@");
  if (at >= 0) return { fromImage: image.slice(0, at).replace(/:[^:/]*$/, ""), tag: image.slice(at + 1) };
  const colon = image.lastIndexOf(":");
  const hasTag = colon > image.lastIndexOf("/");
  return hasTag
    ? { fromImage: image.slice(0, colon), tag: image.slice(colon + 1) }
    : { fromImage: image, tag: "latest" };
}

interface Line {
  readonly id?: string;
  readonly status?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
}

/** One line of the engine's report; layers by id, in bytes. */
export function countLine(layers: Map<string, { done: number; total: number }>, line: Line): void {
  if (line.id === undefined) return;
  const known = layers.get(line.id);
  const { current, total } = line.progressDetail ?? {};
  if (line.status === "Downloading" && current !== undefined)
    layers.set(line.id, { done: current, total: Math.max(current, total ?? 0) });
  else if (known && /^(Verifying Checksum|Download complete|Extracting|Pull complete)$/.test(line.status ?? ""))
    layers.set(line.id, { done: known.total, total: known.total });
}

async function follow(report: Readable, onProgress: OnProgress, signal: AbortSignal): Promise<void> {
  const layers = new Map<string, { done: number; total: number }>();
  for await (const text of createInterface({ input: report, signal })) {
    if (text.trim() === "") continue;
    const line = JSON.parse(text) as Line;
    if (line.error !== undefined) throw new Error(line.error);
    countLine(layers, line);
    const sum = (key: "done" | "total") => [...layers.values()].reduce((all, one) => all + one[key], 0);
    onProgress(sum("done"), sum("total"));
  }
  signal.throwIfAborted();
}

async function isHere(docker: Docker, image: string, abortSignal: AbortSignal): Promise<boolean> {
  try {
    await docker.getImage(image).inspect({ abortSignal } as object);
    return true;
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw error;
  }
}

/** Reason for which an image could not be pulled, for its owner. Exported for its test. */
export function pullFault(error: unknown, image: string): DriverError {
  if (error instanceof DriverError) return error;
  const said = saidBy(error) || String((error as Error).message ?? error);
  const fail = (code: DriverError["code"], why: string, retryable: boolean) =>
    new DriverError(code, `The image ${image} could not be pulled: ${why}`, { retryable, cause: error });
  if (/manifest.*unknown|not found|name unknown|repository does not exist|no such image/i.test(said))
    return fail("image_missing", "its registry does not have it. Check name and digest and deploy again.", false);
  if (/unauthorized|denied|authentication required|forbidden/i.test(said))
    return fail(
      "image_forbidden",
      "its registry does not let this host have it. Use a public image, or have the operator log the host in, and deploy again.",
      false,
    );
  if (/verification failed|digest|checksum|unexpected EOF.*layer|invalid tar/i.test(said))
    return fail(
      "image_corrupt",
      "its registry sent content that does not match the digest. Contact the registry's operator.",
      false,
    );
  if (/no space left|disk quota/i.test(said))
    return fail(
      "no_space",
      "the Docker engine has no disk space left; free some (docker system df shows what uses it).",
      true,
    );
  return fail("image_unreachable", `its registry could not be reached (${said.trim().slice(0, 300)}).`, true);
}
