// Stores blobs in a bucket of any S3-compatible store. Multipart uploads bound memory and need no size in advance; a blob
// appears when its last part was acknowledged.
import { Readable } from "node:stream";
import { DeleteObjectCommand, GetObjectCommand, NoSuchKey, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { isStoreError, type S3Settings, s3ClientOptions } from "../../proto/s3-settings.ts";
import { BlobMissing, type BlobStore, checkKey } from "../files/blobs.ts";
import { fileStoreUnavailable } from "../files/errors.ts";

/** Minimum part size of most stores, except for the last part. At most two parts are in memory. */
const partBytes = 8 * 1024 * 1024;
/** Bytes per read, in memory of each reader. */
const readBytes = 4 * 1024 * 1024;
const limits = { connectionTimeout: 10_000, socketTimeout: 60_000 };

export function createS3Blobs(options: S3Settings): BlobStore {
  const { bucket: Bucket, prefix } = options;
  const client = new S3Client({
    ...s3ClientOptions(options),
    requestHandler: limits,
  });
  const nameOf = (key: string) => `${prefix}${checkKey(key)}`;

  /** Reads up to `readBytes` from `from`, and the total size. */
  async function readAt(key: string, from: number, abortSignal: AbortSignal | undefined) {
    const range = { Bucket, Key: nameOf(key), Range: `bytes=${from}-${from + readBytes - 1}` };
    try {
      const { Body, ContentRange } = await client.send(new GetObjectCommand(range), abortSignal && { abortSignal });
      const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
      // A store without range support has returned everything.
      return { bytes, total: Number(ContentRange?.split("/").at(-1) ?? bytes.length) };
    } catch (error) {
      // The blob is empty.
      if ((error as Error).name === "InvalidRange") return { bytes: Buffer.alloc(0), total: 0 };
      throw error instanceof NoSuchKey ? new BlobMissing(key, { cause: error }) : wrapped(error);
    }
  }

  return {
    name: "s3",

    async put(key, body, signal) {
      const params = { Bucket, Key: nameOf(key), Body: body };
      const upload = new Upload({ client, params, partSize: partBytes, queueSize: 2 });
      const abort = () => void upload.abort();
      signal.addEventListener("abort", abort, { once: true });
      try {
        signal.throwIfAborted();
        await upload.done();
      } catch (error) {
        throw wrapped(error);
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },

    async get(key, signal) {
      const first = await readAt(key, 0, signal);
      // Read in pieces: a reader may pause for hours, longer than a connection lasts.
      async function* pieces() {
        let { bytes, total } = first;
        for (let from = 0; ; ) {
          yield bytes;
          from += bytes.length;
          if (from >= total) return;
          ({ bytes } = await readAt(key, from, signal));
          if (bytes.length === 0) throw fileStoreUnavailable(new Error("the file is shorter than the store reported"));
        }
      }
      return Readable.from(pieces(), { objectMode: false });
    },

    async remove(key) {
      await client.send(new DeleteObjectCommand({ Bucket, Key: nameOf(key) })).catch((error) => {
        throw wrapped(error);
      });
    },
  };
}

/** Wraps errors of the store; errors of the body pass through unchanged. */
const wrapped = (error: unknown): unknown => (isStoreError(error) ? fileStoreUnavailable(error) : error);
