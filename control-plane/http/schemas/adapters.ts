import { Type } from "typebox";
import { nullable } from "./sampling.ts";

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
    type: Type.String({ description: "huggingface, with `repo`, `revision`, `token`" }),
    repo: Type.Optional(nullable.string()),
    revision: Type.Optional(nullable.string()),
    token: Type.Optional(nullable.string({ description: "Kept sealed, never shown" })),
    civit_url: Type.Optional(nullable.string()),
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
  source: Type.Object({ type: Type.String(), repo: Type.String(), revision: Type.String() }),
  private: Type.Boolean({ description: "Kept for you: an adapter serves its own account alone" }),
  description: Type.String(),
  instances: Type.Object({ running: Type.Integer({ description: "Instances of the base that hold it now" }) }),
});
export const Loras = Type.Array(Lora);
