// Files in a bucket of any store that speaks S3. Uploads are in parts, so that memory is bounded and size need not be known;
// a blob appears when its last part was acknowledged.
import { Readable } from "node:stream";
import { DeleteObjectCommand, GetObjectCommand, NoSuchKey, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { BlobMissing, type BlobStore } from "../files/blobs.ts";
import { FileStoreAway } from "../files/errors.ts";
import { checkKey } from "./key.ts";

export interface S3Options {
  readonly bucket: string;
  /** Before every key; empty or ending in a slash. */
  readonly prefix: string;
  readonly region: string;
  /** Origin of a store that is not Amazon's. */
  readonly endpoint: string | undefined;
  /** Undefined: as the client finds them on this machine (profile, instance role). */
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** The least that stores take but for the last one. Two are in memory at a time. */
const partBytes = 8 * 1024 * 1024;
/** Read at a time, and in memory of each reader. */
const readBytes = 4 * 1024 * 1024;
const limits = { connectionTimeout: 10_000, socketTimeout: 60_000 };

export function createS3Blobs(options: S3Options): BlobStore {
  const { bucket: Bucket, prefix, endpoint, credentials } = options;
  const client = new S3Client({
    region: options.region,
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(credentials === undefined ? {} : { credentials }),
    // Many compatible stores refuse the newer trailing checksums.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: limits,
  });
  const nameOf = (key: string) => `${prefix}${checkKey(key)}`;

  /** Up to `readBytes` from `from`, and how many there are in all. */
  async function readAt(key: string, from: number, abortSignal: AbortSignal | undefined) {
    const range = { Bucket, Key: nameOf(key), Range: `bytes=${from}-${from + readBytes - 1}` };
    try {
      const { Body, ContentRange } = await client.send(new GetObjectCommand(range), abortSignal && { abortSignal });
      const bytes = Buffer.from((await Body?.transformToByteArray()) ?? []);
      // A store that knows no ranges has given everything.
      return { bytes, total: Number(ContentRange?.split("/").at(-1) ?? bytes.length) };
    } catch (error) {
      // No byte stands there: the blob is empty.
      if ((error as Error).name === "InvalidRange") return { bytes: Buffer.alloc(0), total: 0 };
      throw error instanceof NoSuchKey ? new BlobMissing(key, { cause: error }) : told(error);
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
        throw told(error);
      } finally {
        signal.removeEventListener("abort", abort);
      }
    },

    async get(key, signal) {
      const first = await readAt(key, 0, signal);
      // In pieces: a reader may take hours from one to the next, which no connection would outlast.
      async function* pieces() {
        let { bytes, total } = first;
        for (let from = 0; ; ) {
          yield bytes;
          from += bytes.length;
          if (from >= total) return;
          ({ bytes } = await readAt(key, from, signal));
          if (bytes.length === 0) throw new FileStoreAway(new Error("the file is shorter than the store said"));
        }
      }
      return Readable.from(pieces(), { objectMode: false });
    },

    async remove(key) {
      await client.send(new DeleteObjectCommand({ Bucket, Key: nameOf(key) })).catch((error) => {
        throw told(error);
      });
    },
  };
}

/** A store that refuses or does not answer; errors of the body come through as they are. */
function told(error: unknown): unknown {
  const { $metadata, name, code } = error as { $metadata?: { httpStatusCode?: number }; name?: string; code?: string };
  const isConnection = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE)/.test(code ?? "") || name === "TimeoutError";
  return $metadata?.httpStatusCode || isConnection ? new FileStoreAway(error) : error;
}
