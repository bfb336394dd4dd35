import type { ColumnType, Generated } from "kysely";
import type { StandardArgs } from "../../deployments/store.ts";
import type { DefaultTime, Json, Time } from "./columns.ts";

export interface DeploymentsTables {
  /** Models offered to every account, served by a deployment of the operator. */
  public_model: {
    model_name: string;
    deploy_id: string;
    description: Generated<string>;
    created_at: DefaultTime;
  };
  deployment: {
    deploy_id: string;
    account_id: string;
    /** What runs: a model, a rented container or an agent instance. */
    kind: Generated<"model" | "container" | "agent_instance">;
    /** Of a container or agent instance: the name its owner gave it. */
    model_name: string;
    version: string;
    task: string;
    type: "legacy" | "llm" | "lora" | "tts";
    engine: "stoker" | "vllm" | "sglang" | "custom" | "external" | "container" | "agent_instance";
    status: string;
    fail_reason: Generated<string>;
    gpu: string;
    num_gpus: number;
    max_batch_size: number;
    min_instances: number;
    max_instances: number;
    /** The wire's Weights without the token. */
    weights: Json<Record<string, unknown>>;
    /** Under the account's data key: hub token, or what a container does at its first start; null without one. */
    weights_token: Buffer | null;
    /** Of kind container: its image and whom it lets in. */
    container: Json<{ image: string; sshKeys: readonly string[] }> | null;
    /** What standard_args come to included. */
    extra_args: string[];
    /** As the owner gave them, by the names of StandardArgs. */
    standard_args: ColumnType<StandardArgs, string | undefined, string>;
    /** The image a customer brought; empty: the host's for the engine. */
    image: Generated<string>;
    external_url: string | null;
    context_length: number;
    /** What an instance placed now claims. */
    memory_bytes: bigint;
    /** It never takes more than memory_bytes. */
    memory_bound: Generated<boolean>;
    /** Of deployment_spec: what memory_bytes was found out of. */
    memory_spec: Generated<number>;
    /** Of the price book's container prices; null: a minute costs what its GPUs cost. */
    price_subject: string | null;
    /** Why it waits: rejections per host. */
    pending_reasons: Json<readonly { host: string; why: string }[]>;
    /** Rises with every change of what runs, a return to what ran before included. */
    generation: Generated<number>;
    /** Of deployment_spec: what is to run. */
    spec: Generated<number>;
    /** The last one that served; 0: none has yet. What a failed update returns to. */
    serving_spec: Generated<number>;
    /** Why the last update was taken back; empty otherwise. */
    update_error: Generated<string>;
    /** Instances wanted by load, between min_instances and max_instances; 0: asleep. */
    target: Generated<number>;
    /** Seconds without a request until it sleeps; null: the default. Only with min_instances 0. */
    inactive_shutdown: number | null;
    /** When somebody last waited for an instance. */
    awaited_at: Time | null;
    /** When it was last seen in use, a few seconds more or less; null: never. */
    used_at: Time | null;
    /** Instances that failed while others served, replaced one after the other; back to 0 after a calm time. */
    replacements: Generated<number>;
    replaced_at: Time | null;
    /** How long an instance takes from its placement until it serves, of late; 0 unknown. */
    start_ms: Generated<number>;
    revision: Generated<bigint>;
    lock_owner: string | null;
    lock_token: Generated<bigint>;
    lock_expires_at: Time | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
    deleted_at: Time | null;
  };
  /** What a deployment ran, runs or is to run: never changed, so that old instances keep theirs during a rollout. */
  deployment_spec: {
    deploy_id: string;
    spec: number;
    extra_args: string[];
    standard_args: ColumnType<StandardArgs, string | undefined, string>;
    context_length: number;
    /** What its instances claim, which a return to it claims again; null: nobody knew. */
    memory_bytes: bigint | null;
    memory_bound: boolean | null;
    created_at: DefaultTime;
  };
  instance: {
    instance_id: string;
    deploy_id: string;
    account_id: string;
    host_id: string;
    generation: number;
    /** Of deployment_spec: what it is to run. */
    spec: Generated<number>;
    /** Of the generation it last reported to run; 0 before its first report. */
    observed_generation: Generated<number>;
    gpu_uuids: string[];
    /** Of each of its GPUs; 1 all of it. */
    gpu_share: Generated<number>;
    /** Of the one GPU it shares; 0: its GPUs are its own. */
    gpu_memory_bytes: Generated<bigint>;
    /** Of its host's memory, promised to it. */
    granted_bytes: Generated<bigint>;
    /** pending, downloading, creating, loading, ready, draining, stopped, failed */
    phase: string;
    fail_code: Generated<string>;
    fail_message: Generated<string>;
    bytes_done: Generated<bigint>;
    bytes_total: Generated<bigint>;
    restarts: Generated<number>;
    context_length: Generated<number>;
    identity: Generated<string>;
    /** Where SSH of a container is published; 0 and empty where it is not. */
    ssh_port: Generated<number>;
    ssh_address: Generated<string>;
    /** When it first served. */
    ready_at: Time | null;
    /** LoRA adapters that requests at it may name, by id. */
    adapters: Generated<string[]>;
    /** Set when it must go; the host removes it and confirms, then the row goes. */
    tombstoned_at: Time | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
  /** Instances that their host confirmed to be gone. One that is seen there again gets its tombstone again. */
  ended_instance: { instance_id: string; host_id: string; ended_at: DefaultTime; seen_again_at: Time | null };
  /** One row per GPU in use, of one account: the last wall against a double allocation. Goes with the last share. */
  gpu_claim: {
    host_id: string;
    gpu_uuid: string;
    account_id: string;
    /** What the GPU has. */
    memory_bytes: bigint;
    /** Sum of the shares; never above memory_bytes. */
    claimed_bytes: bigint;
  };
  /** By account and GPU type, moved when small models of the account begin to share one more: two never begin at the same time. */
  gpu_sharing: { account_id: string; gpu: string; revision: bigint };
  /** What an instance has of a GPU; all of it where it is alone there. */
  gpu_share: { host_id: string; gpu_uuid: string; instance_id: string; account_id: string; memory_bytes: bigint };
}
