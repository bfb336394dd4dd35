// Files with their store.
import type { Logger } from "pino";
import { createFolderBlobs } from "../blobs/folder-blobs.ts";
import type { ControlPlaneConfig } from "../config.ts";
import type { BlobStore } from "../files/blobs.ts";
import { createFiles, type Files } from "../files/files.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createFileStore } from "../store/work/file-store.ts";

/** Maximum bytes of a file, and of an input file of a batch (OpenAI's limit). */
const bytes = 512 * 1024 ** 2;
const batchBytes = 200e6;

export async function openFiles(deps: {
  readonly db: OpenDatabase["db"];
  readonly settings: ControlPlaneConfig["files"];
  readonly log: Logger;
}): Promise<Files> {
  const { settings } = deps;
  const limits = { bytes, batchBytes, quotaBytes: settings.quotaBytes };
  return createFiles({ store: createFileStore(deps.db), blobs: await openBlobs(settings, deps.log), limits });
}

async function openBlobs({ folder, s3 }: ControlPlaneConfig["files"], log: Logger): Promise<BlobStore> {
  if (s3) {
    log.info({ bucket: s3.bucket, endpoint: s3.endpoint }, "files are stored in an S3 bucket");
    // Loaded only when needed, because the client is large.
    const { createS3Blobs } = await import("../blobs/s3-blobs.ts");
    return createS3Blobs(s3);
  }
  log.info(
    { folder },
    "files are stored in a folder; several control planes must share it or use a bucket (STOKER_FILES_S3_BUCKET)",
  );
  return createFolderBlobs(folder);
}
