import { Type } from "typebox";

const format = Type.Union(
  ["gguf", "safetensors", "onnx", "lora"].map((one) => Type.Literal(one)),
  { description: "What the engine reads: one GGUF model, or the files of one format", default: "gguf" },
);

export const PrefetchBody = Type.Object({
  repo: Type.String({
    pattern: "^[A-Za-z0-9][\\w.-]{0,95}/[\\w.-]{1,96}$",
    description: "Repository of the hub, owner/name",
  }),
  revision: Type.Optional(
    Type.String({ pattern: "^[\\w./-]{1,128}$", default: "main", description: "Branch, tag or commit" }),
  ),
  file: Type.Optional(Type.String({ maxLength: 512, description: "The one file wanted; by default chosen by format" })),
  format: Type.Optional(format),
  pin: Type.Optional(Type.Boolean({ default: false, description: "Never evicted while this stands" })),
});

export const PrefetchRecord = Type.Object({
  prefetch_id: Type.String(),
  repo: Type.String(),
  revision: Type.String(),
  file: Type.String({ description: "Empty: chosen by format" }),
  format: Type.String(),
  pinned: Type.Boolean(),
  state: Type.Union(["waiting", "downloading", "ready", "failed"].map((one) => Type.Literal(one))),
  commit: Type.String({ description: "Empty until it is there" }),
  bytes: Type.Integer(),
  bytes_total: Type.Integer({ description: "0 while unknown" }),
  fail_code: Type.String(),
  fail_message: Type.String(),
  created_at: Type.String({ format: "date-time" }),
});
