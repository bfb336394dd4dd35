import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "./blobs.ts";
import type { HubSource } from "./hub.ts";

export interface KnownFile {
  readonly sha256: string;
  readonly name: string;
}

/** What a hub said before: a commit never changes, and a branch's last answer serves while the hub is away. */
export interface KnownFiles {
  recall(key: string): Promise<KnownFile | undefined>;
  remember(key: string, file: KnownFile): Promise<void>;
}

export function createKnownFiles(cacheDir: string): KnownFiles {
  const folder = join(cacheDir, "refs");
  return {
    async recall(key) {
      try {
        const { sha256, name } = JSON.parse(await readFile(join(folder, key), "utf8")) as Partial<KnownFile>;
        return typeof sha256 === "string" && typeof name === "string" ? { sha256, name } : undefined;
      } catch {
        return undefined;
      }
    },
    async remember(key, file) {
      await mkdir(folder, { recursive: true });
      await replaceFile(join(folder, key), JSON.stringify(file));
    },
  };
}

/** The token is part of it: what one tenant was allowed to read is no answer for another. */
export function knownFileKey(endpoint: string, source: HubSource, token: string | undefined): string {
  const parts = [endpoint, source.repo, source.revision, source.file ?? "", source.sha256 ?? "", token ?? ""];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
