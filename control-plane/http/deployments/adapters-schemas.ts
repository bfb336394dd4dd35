import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

export const LoraModelRequest = Type.Object({
  hf_model_name: Type.String({ minLength: 1, description: "Hub repository of the adapter, in PEFT format" }),
  lora_model_name: Type.String({ minLength: 1, description: "<owner>/<name>, as requests name it" }),
  hf_token: Type.Optional(nullable.string({ description: "Kept sealed, never shown" })),
  base_model_name: Type.Optional(
    nullable.string({ description: "A model that is served here; by default as the hub says" }),
  ),
});

export const LoraCreateRequest = Type.Object({
  base_model: Type.String({ minLength: 1 }),
  lora_name: Type.String({ minLength: 1, description: "<owner>/<name>" }),
  source: Type.Object({
    type: Type.String({
      description:
        "huggingface with `repo`; civitai with `civit_url`, or url with `url`: one .safetensors file of a picture model's adapter",
    }),
    repo: Type.Optional(nullable.string()),
    revision: Type.Optional(nullable.string()),
    file: Type.Optional(
      nullable.string({ description: "Of the repository; by default adapter_model or pytorch_lora_weights" }),
    ),
    civit_url: Type.Optional(nullable.string({ maxLength: 4_096 })),
    url: Type.Optional(nullable.string({ maxLength: 4_096, description: "https:// at a public address" })),
    token: Type.Optional(
      nullable.string({ description: "Of the hub, or sent to the URL's host alone. Kept sealed, never shown" }),
    ),
  }),
  private: Type.Optional(nullable.boolean({ default: true })),
  description: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

export const LoraChange = Type.Object({
  private: Type.Optional(nullable.boolean()),
  description: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

export const LoraStatus = Type.Object({
  lora_name: Type.String(),
  base_model: Type.String(),
  deploy_id: Type.String(),
  status: Type.String({ description: "initializing, downloading, deploying, deployed, failed" }),
  fail_reason: Type.String({ description: "Also what is tried again while it is not deployed" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  updated_at: Type.Integer({ description: "Unix seconds" }),
});

export const Lora = Type.Object({
  ...LoraStatus.properties,
  source: Type.Object({
    type: Type.String(),
    repo: Type.Optional(Type.String()),
    revision: Type.Optional(Type.String()),
    file: Type.Optional(Type.String()),
    civit_url: Type.Optional(Type.String({ description: "Without what follows its path" })),
    url: Type.Optional(Type.String({ description: "Without what follows its path" })),
  }),
  commit: Type.String({
    description: "What every instance holds: the repository's commit, or the file's sha256; empty until it is known",
  }),
  private: Type.Boolean({ description: "Kept for you: an adapter serves its own account alone" }),
  description: Type.String(),
  instances: Type.Object({ running: Type.Integer({ description: "Instances of the base that hold it now" }) }),
});
export const Loras = Type.Array(Lora);
