import { Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

export const LoraModelRequest = Type.Object({
  hf_model_name: Type.String({ minLength: 1, description: "Hub repository of the adapter, in PEFT format" }),
  lora_model_name: Type.String({ minLength: 1, description: "<owner>/<name>; model name in requests" }),
  hf_token: Type.Optional(nullable.string({ description: "Stored encrypted, never shown" })),
  base_model_name: Type.Optional(
    nullable.string({ description: "A served model; default: the base model that the hub names" }),
  ),
});

export const LoraCreateRequest = Type.Object({
  base_model: Type.String({ minLength: 1 }),
  lora_name: Type.String({ minLength: 1, description: "<owner>/<name>" }),
  source: Type.Object({
    type: Type.String({
      description:
        "huggingface with `repo`; civitai with `civit_url`, or url with `url`: one .safetensors file of an image model's adapter",
    }),
    repo: Type.Optional(nullable.string()),
    revision: Type.Optional(nullable.string()),
    file: Type.Optional(
      nullable.string({ description: "File of the repository; default: adapter_model or pytorch_lora_weights" }),
    ),
    civit_url: Type.Optional(nullable.string({ maxLength: 4_096 })),
    url: Type.Optional(nullable.string({ maxLength: 4_096, description: "https:// with a public address" })),
    token: Type.Optional(
      nullable.string({ description: "Token of the hub, or for the URL's host only. Stored encrypted, never shown" }),
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
  fail_reason: Type.String({ description: "Also the cause of a retry while it is not deployed" }),
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
    civit_url: Type.Optional(Type.String({ description: "Without query and fragment" })),
    url: Type.Optional(Type.String({ description: "Without query and fragment" })),
  }),
  commit: Type.String({
    description: "Commit of the repository, or sha256 of the file; empty until it is known",
  }),
  private: Type.Boolean({ description: "Stored only: an adapter serves only its own account" }),
  description: Type.String(),
  instances: Type.Object({ running: Type.Integer({ description: "Instances of the base model that have it loaded" }) }),
});
export const Loras = Type.Array(Lora);
