import { Type } from "typebox";

const format = Type.Unsafe<string>({
  type: "string",
  enum: ["gguf", "safetensors", "onnx", "lora"],
  description: "What the engine reads: one GGUF model, or the files of one format",
  default: "gguf",
});

// What an agent would refuse is refused here: no part of a path leads out of its folder.
const noStepUp = "(?!.*(?:^|/)\\.\\.(?:/|$))";
const plainPath = "(?!.*(?:^|/)\\.{0,2}(?:/|$))[\\w.][\\w. +@/=,()-]{0,511}";

export const PrefetchBody = Type.Object(
  {
    repo: Type.String({
      pattern: `^${noStepUp}[A-Za-z0-9][\\w.-]{0,95}/[\\w.-]{1,96}$`,
      description: "Repository of the hub, owner/name",
    }),
    revision: Type.Optional(
      Type.String({
        pattern: `^${noStepUp}[\\w./-]{1,128}$`,
        default: "main",
        description: "Branch, tag or commit",
      }),
    ),
    file: Type.Optional(
      Type.String({
        pattern: `^$|^${plainPath}$`,
        description: "The one file wanted, by its path in the repository; empty: chosen by format",
      }),
    ),
    format: Type.Optional(format),
    pin: Type.Optional(Type.Boolean({ default: false, description: "Never evicted while this stands" })),
  },
  { additionalProperties: false },
);

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
