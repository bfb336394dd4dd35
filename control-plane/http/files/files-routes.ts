import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { StoredFile } from "../../files/file.ts";
import { takeUploads } from "../body/upload.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { expiryOutOfRange } from "../errors/errors.ts";
import type { FileFeatures } from "./features.ts";
import {
  DeletedFile,
  FileList,
  FileQuery,
  FileRecord,
  FileUpload,
  maxExpirySeconds,
  minExpirySeconds,
} from "./files-schemas.ts";

/** `app`: a separate context, whose bodies are streamed to the file store. */
export function addFileUpload(endpoints: Endpoints, app: FastifyInstance, { files }: FileFeatures): void {
  const own = endpoints.with({ tag: "files", access: "key", dialect: "compat" });

  takeUploads(app, files.stage);
  own.post("/v1/files", {
    summary: "Upload a file for a batch",
    takes: "forms",
    idempotent: true,
    body: FileUpload,
    answer: FileRecord,
    refusals: [400, 409, 413],
    async handler({ body, reply }) {
      const upload = reply.request.upload as NonNullable<typeof reply.request.upload>;
      const seconds = body.expires_after && Number(body.expires_after.seconds);
      if (seconds !== undefined && (seconds < minExpirySeconds || seconds > maxExpirySeconds))
        throw expiryOutOfRange("expires_after.seconds", minExpirySeconds, maxExpirySeconds);
      const expiresAfterMs = seconds === undefined ? undefined : seconds * 1000;
      return renderFile(await upload.staged.keep({ filename: upload.filename, expiresAfterMs }));
    },
  });
}

export function addFileRoutes(endpoints: Endpoints, { files }: FileFeatures): void {
  const own = endpoints.with({ tag: "files", access: "key", dialect: "compat" });

  own.get("/v1/files", {
    summary: "List files of the account, newest first",
    query: FileQuery,
    answer: FileList,
    async handler({ caller, query }) {
      const { after, purpose, order = "desc", limit = 10_000 } = query;
      const page = await files.list(caller.account, purpose, { after, order, limit });
      return listOf(page.files.map(renderFile), page.hasMore);
    },
  });
  own.get("/v1/files/:file_id", {
    summary: "Get a file's record",
    answer: FileRecord,
    refusals: [404],
    handler: async ({ caller, params: { file_id } }) => renderFile(await files.get(caller.account, file_id)),
  });
  own.get("/v1/files/:file_id/content", {
    summary: "Download a file",
    answer: Type.Unsafe<unknown>({ contentMediaType: "application/octet-stream" }),
    refusals: [404],
    async handler({ caller, params: { file_id }, reply }) {
      const { file, body } = await files.content(caller.account, file_id);
      reply.headers({
        "content-type": "application/octet-stream",
        "content-length": String(file.bytes),
        "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(file.filename.toWellFormed())}`,
      });
      return body;
    },
  });
  own.delete("/v1/files/:file_id", {
    summary: "Delete a file",
    answer: DeletedFile,
    refusals: [404, 409],
    async handler({ caller, params: { file_id } }) {
      await files.remove(caller.account, file_id);
      return { id: file_id, object: "file", deleted: true };
    },
  });
}

const renderFile = (file: StoredFile): FileRecord => ({
  id: file.id,
  object: "file",
  bytes: file.bytes,
  created_at: unixSeconds(file.createdAtMs),
  expires_at: unixSeconds(file.expiresAtMs),
  filename: file.filename,
  purpose: file.purpose,
  status: "processed",
});

/** Returns a page in OpenAI's format. */
export const listOf = <T extends { readonly id: string }>(data: readonly T[], hasMore: boolean) => ({
  object: "list" as const,
  data: [...data],
  first_id: data[0]?.id ?? null,
  last_id: data.at(-1)?.id ?? null,
  has_more: hasMore,
});
