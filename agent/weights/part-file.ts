import { createHash, type Hash } from "node:crypto";
import { open } from "node:fs/promises";

/** An append-only file with the hash of its content. */
export interface PartFile {
  readonly path: string;
  bytes(): number;
  append(chunk: Buffer): Promise<void>;
  rewind(): Promise<void>;
  /** Hashes of all bytes so far. `git` is valid only once `gitSize` bytes are present. */
  digests(): { readonly sha256: string; readonly git: string };
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Reads existing bytes once, so that a resumed download is verified from its first byte. */
export async function openPartFile(path: string, gitSize: number | undefined, signal: AbortSignal): Promise<PartFile> {
  const file = await open(path, "r+");
  let bytes = 0;
  let hashes = freshHashes(gitSize);
  try {
    for await (const chunk of file.createReadStream({ autoClose: false, start: 0, signal })) {
      for (const hash of hashes) hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
  } catch (error) {
    await file.close();
    throw error;
  }
  return {
    path,
    bytes: () => bytes,
    async append(chunk) {
      for (let done = 0; done < chunk.length; )
        done += (await file.write(chunk, done, chunk.length - done, bytes + done)).bytesWritten;
      for (const hash of hashes) hash.update(chunk);
      bytes += chunk.length;
    },
    async rewind() {
      await file.truncate(0);
      bytes = 0;
      hashes = freshHashes(gitSize);
    },
    digests() {
      const [sha256 = "", git = ""] = hashes.map((hash) => hash.copy().digest("hex"));
      return { sha256, git };
    },
    async sync() {
      await file.chmod(0o644);
      await file.sync();
    },
    close: () => file.close(),
  };
}

function freshHashes(gitSize: number | undefined): Hash[] {
  const sha256 = createHash("sha256");
  return gitSize === undefined ? [sha256] : [sha256, createHash("sha1").update(`blob ${gitSize}\0`)];
}
