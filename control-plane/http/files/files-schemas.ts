import { type Static, Type } from "typebox";

export const minExpirySeconds = 3_600;
export const maxExpirySeconds = 2_592_000;

export const FileUpload = Type.Object({
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

export const FileRecord = Type.Object({
  id: Type.String(),
  object: Type.Literal("file"),
  bytes: Type.Integer(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  expires_at: Type.Integer({ description: "Unix seconds" }),
  filename: Type.String(),
  purpose: Type.Unsafe<"batch" | "batch_output">({ type: "string", enum: ["batch", "batch_output"] }),
  status: Type.Literal("processed"),
});
export type FileRecord = Static<typeof FileRecord>;

export const FileQuery = Type.Object({
  after: Type.Optional(Type.String({ description: "Id of the last item of the previous page" })),
  purpose: Type.Optional(Type.Unsafe<"batch" | "batch_output">({ type: "string", enum: ["batch", "batch_output"] })),
  order: Type.Optional(Type.Unsafe<"asc" | "desc">({ type: "string", enum: ["asc", "desc"], default: "desc" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000 })),
});

export const FileList = Type.Object({
  object: Type.Literal("list"),
  data: Type.Array(FileRecord),
  first_id: Type.Union([Type.String(), Type.Null()]),
  last_id: Type.Union([Type.String(), Type.Null()]),
  has_more: Type.Boolean(),
});

export const DeletedFile = Type.Object({
  id: Type.String(),
  object: Type.Literal("file"),
  deleted: Type.Boolean(),
});
