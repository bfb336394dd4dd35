// The only importer of the S3 client. Works with every store that speaks the protocol; uploads are in parts, so that size is
// not known and memory is bounded, and appear only when their last part was acknowledged.
import type { Readable } from "node:stream";
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  NoSuchKey,
  NoSuchUpload,
  S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { isStoreError, type S3Settings, s3ClientOptions } from "../../proto/s3-settings.ts";
import { BackupError } from "./backup-error.ts";
import { type BlobStore, checkKey } from "./blob-store.ts";

interface S3Options extends S3Settings {
  /** Longest silence of a connection; 60 s by default. */
  readonly silenceMs?: number;
}

/** A store takes 10,000 parts: backups up to 320 GB. Two of them are in memory at a time. */
const partBytes = 32 * 1024 * 1024;
const connectLimitMs = 10_000;
const silenceLimitMs = 60_000;

export function createS3Blobs(options: S3Options): BlobStore & { close(): void } {
  const { bucket: Bucket, prefix } = options;
  const client = new S3Client({
    // Our own checksum covers the data end to end.
    ...s3ClientOptions(options),
    // A limit for whole requests would end the parts of a slow link, and by default the client only warns.
    requestHandler: { connectionTimeout: connectLimitMs, socketTimeout: options.silenceMs ?? silenceLimitMs },
  });
  const nameOf = (key: string) => `${prefix}${checkKey(key)}`;

  return {
    name: "s3",

    async put(key, body, signal) {
      const upload = new Upload({
        client,
        params: { Bucket, Key: nameOf(key), Body: body },
        partSize: partBytes,
        queueSize: 2,
      });
      const abort = () => void upload.abort();
      signal.addEventListener("abort", abort, { once: true });
      try {
        signal.throwIfAborted();
        await asking(() => upload.done());
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },

    async get(key, signal) {
      const command = new GetObjectCommand({ Bucket, Key: nameOf(key) });
      const { Body } = await asking(() => client.send(command, { abortSignal: signal }));
      return Body as Readable;
    },

    async remove(key, signal) {
      await asking(() => client.send(new DeleteObjectCommand({ Bucket, Key: nameOf(key) }), { abortSignal: signal }));
    },

    async sweep(folder, signal) {
      const Prefix = `${nameOf(folder)}/`;
      // One page of a thousand; the next backup handles the rest.
      const list = new ListMultipartUploadsCommand({ Bucket, Prefix });
      const { Uploads = [] } = await asking(() => client.send(list, { abortSignal: signal }));
      for (const { Key, UploadId } of Uploads) {
        const abort = new AbortMultipartUploadCommand({ Bucket, Key, UploadId });
        await asking(() => client.send(abort, { abortSignal: signal }).catch(unlessGone));
      }
    },

    close: () => client.destroy(),
  };
}

/** An interrupted upload also aborts itself, perhaps after it was listed here. */
function unlessGone(error: unknown): void {
  if (!(error instanceof NoSuchUpload)) throw error;
}

/** Converts errors of the store to BackupError; errors of the body pass unchanged. */
async function asking<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof NoSuchKey)
      throw new BackupError("backup_missing", "The backup is not in the store any more.", { cause: error });
    if (!isStoreError(error)) throw error;
    const text = "The backup store is unavailable; nothing was changed. Try again shortly.";
    throw new BackupError("store_away", text, { cause: error });
  }
}
