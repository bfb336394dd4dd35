import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { StoredFile } from "../../files/store.ts";
import { takeUploads } from "../body/upload.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { expiryOutOfRange } from "../errors/errors.ts";
import type { FileFeatures } from "./features.ts";

export const minExpirySeconds = 3_600;
export const maxExpirySeconds = 2_592_000;

const FileUpload = Type.Object({
  purpose: Type.Unsafe<"batch">({ type: "string", enum: ["batch"] }),
  file: Type.Unsafe<string>({ contentMediaType: "application/octet-stream", description: "Up to 200 MB" }),
  expires_after: Type.Optional(
    Type.Object({
      anchor: Type.Unsafe<"created_at">({ type: "string", enum: ["created_at"] }),
      seconds: Type.Unsafe<string>({
        type: "string",
        pattern: "^\\d{1,9}$",
        description: `From ${minExpirySeconds} to ${maxExpirySeconds}; default: 30 days`,
      }),
    }),
  ),
});

const FileRecord = Type.Object({
  id: Type.String(),
  object: Type.Literal("file"),
  bytes: Type.Integer(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
  filename: Type.String(),
  purpose: Type.Unsafe<"batch" | "batch_output">({ type: "string", enum: ["batch", "batch_output"] }),
  status: Type.Literal("processed"),
});
type FileRecord = Static<typeof FileRecord>;

const FileQuery = Type.Object({
  after: Type.Optional(Type.String({ maxLength: 64, description: "Id of the last item of the previous page" })),
  purpose: Type.Optional(Type.Unsafe<"batch" | "batch_output">({ type: "string", enum: ["batch", "batch_output"] })),
  order: Type.Optional(Type.Unsafe<"asc" | "desc">({ type: "string", enum: ["asc", "desc"], default: "desc" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000 })),
});

const FileList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(FileRecord),
  first_id: Type.Union([Type.String(), Type.Null()]),
  last_id: Type.Union([Type.String(), Type.Null()]),
  has_more: Type.Boolean(),
});

const DeletedFile = Type.Object({
  id: Type.String(),
  object: Type.Literal("file"),
  deleted: Type.Boolean(),
});

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
    isOpenToOperators: true,
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
    isOpenToOperators: true,
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
