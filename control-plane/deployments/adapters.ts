// LoRA adapters of an account. Hosts receive them in the desired state of the base model's instances.
import { noAdapters } from "../../proto/engine-args.ts";
import { type AccountId, type AdapterId, randomId } from "../../proto/ids.ts";
import type { LookAtRepo, RepoLook } from "../catalog/hub-look.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import { type AdapterOrigin, adaptedTasks, imageTask, preloadLimit } from "./adapter.ts";
import { checkRepo, fullName, type Owner } from "./create.ts";
import { AdapterNotFound, accountEnded, adapterRefused, deploymentNameTaken, refuseSuspended } from "./errors.ts";
import type { Adapter, AdapterStore } from "./store.ts";

export interface AdapterRequest {
  readonly name: string;
  readonly origin: AdapterOrigin;
  readonly token: string | undefined;
  /** Undefined: from the hub's record. */
  readonly baseModel: string | undefined;
  readonly isPrivate: boolean;
  readonly description: string;
  /** Names of the fields as the caller sent them, for errors. */
  readonly fields: { readonly name: string; readonly repo: string; readonly base: string };
}

export interface Adapters {
  /** Throws adapterRefused, deploymentNameTaken, accountSuspended, accountEnded. */
  create(owner: Owner, request: AdapterRequest): Promise<Adapter>;
  /** By its name, or its id. These three throw AdapterNotFound. */
  get(owner: Owner, name: string): Promise<Adapter>;
  change(owner: Owner, name: string, change: { isPrivate?: boolean; description?: string }): Promise<Adapter>;
  remove(owner: Owner, name: string): Promise<Adapter>;
  /** All of the account's adapters, or those of one base. */
  list(account: AccountId, baseModel: string | undefined): Promise<readonly Adapter[]>;
}

const maxPerAccount = 100;
const fileForm = /^[\w.][\w. +@/=,()-]{0,511}\.safetensors$/;

export function createAdapters(deps: {
  readonly store: AdapterStore;
  readonly resolve: (model: string, account: AccountId) => ServedModel | undefined;
  /** Reloads what `resolve` returns. */
  readonly refresh: () => Promise<void>;
  readonly lookAtRepo: LookAtRepo;
  /** Reason why a URL must not be fetched; undefined: it may be. */
  readonly whyUrlRefused: (url: string) => Promise<string | undefined>;
  readonly sealToken: (account: AccountId, token: string) => Promise<Buffer>;
}): Adapters {
  const { store } = deps;

  /** The hub's current record: the commit a branch points to, so that every instance loads the same version. */
  async function lookAt({ origin, token, fields }: AdapterRequest): Promise<RepoLook | undefined> {
    if (origin.kind === "huggingface") {
      const revision = origin.revision ?? "main";
      checkRepo(origin.repo, revision, { repo: fields.repo, revision: "revision" });
      if (origin.file !== undefined && !fileForm.test(origin.file))
        throw adapterRefused(fields.repo, "`file` is the path of a .safetensors file in the repository.");
      return deps.lookAtRepo(origin.repo, revision, token);
    }
    const why = await deps.whyUrlRefused(origin.url);
    if (why !== undefined) throw adapterRefused(fields.repo, `this URL cannot be used: ${why}.`);
    return undefined;
  }

  async function baseOf({ account }: Owner, request: AdapterRequest, look: RepoLook | undefined): Promise<ServedModel> {
    const { base: field } = request.fields;
    const name = request.baseModel ?? (look?.kind === "found" ? look.baseModel : undefined);
    if (name === undefined)
      throw adapterRefused(field, "the repository names no base model, or the hub is unreachable; set it.");
    let base = deps.resolve(name, account);
    // It may have been deployed a moment ago.
    if (!base) {
      await deps.refresh();
      base = deps.resolve(name, account);
    }
    if (!base || base.status === "failed")
      throw adapterRefused(
        field,
        `model ${name.slice(0, 200)} not found. \`GET /models/lora/list\` lists models that support adapters.`,
      );
    if (!base.takesAdapters) throw adapterRefused(field, whyNone(base));
    const { kind } = request.origin;
    if (base.task !== imageTask && (kind !== "huggingface" || request.origin.file !== undefined))
      throw adapterRefused(
        request.fields.repo,
        `${base.name} is a text model: its adapters are hub repositories in PEFT format with safetensors; use type huggingface with \`repo\` only.`,
      );
    return base;
  }

  async function find({ account, displayName }: Owner, name: string): Promise<Adapter> {
    const found = name.includes("/")
      ? await store.find(name, account)
      : ((await store.get(name as AdapterId, account)) ?? (await store.find(`${displayName}/${name}`, account)));
    if (!found || found.status === "deleted") throw new AdapterNotFound(name);
    return found;
  }

  async function sourceOf(account: AccountId, { origin, token }: AdapterRequest, look: RepoLook | undefined) {
    const seal = (text: string) => deps.sealToken(account, text);
    const sealed = { source: origin.kind, token: token ? await seal(token) : null };
    if (origin.kind !== "huggingface") {
      const { origin: host, pathname } = new URL(origin.url);
      return { ...sealed, repo: `${host}${pathname}`, revision: "", file: "", url: await seal(origin.url), commit: "" };
    }
    const { repo, revision = "main", file = "" } = origin;
    const commit = look?.kind === "found" ? (look.commit ?? "") : "";
    return { ...sealed, repo, revision, file, url: null, commit };
  }

  return {
    async create(owner, request) {
      refuseSuspended(owner);
      const { fields } = request;
      const name = fullName(request.name, owner.displayName, fields.name);
      // Its status path would collide with another adapter's record.
      if (name.endsWith("/status")) throw adapterRefused(fields.name, "an adapter cannot be called status.");
      const look = await lookAt(request);
      const base = await baseOf(owner, request, look);
      const taken = deps.resolve(name, owner.account);
      if (taken && taken.status !== "failed") throw deploymentNameTaken(name);
      const created = await store.insert(
        {
          id: randomId<"adapter">(16),
          account: owner.account,
          name,
          baseDeployId: base.deployId,
          baseModel: base.name,
          isBasePublic: base.isPublic,
          ...(await sourceOf(owner.account, request, look)),
          isPrivate: request.isPrivate,
          description: request.description,
        },
        maxPerAccount,
        preloadLimit(base.task),
      );
      if (created === "account_gone") throw accountEnded();
      if (created === "name_taken") throw deploymentNameTaken(name);
      if (created === "too_many")
        throw adapterRefused(fields.name, `an account may have at most ${maxPerAccount} adapters; delete one first.`);
      if (created === "base_takes_none")
        throw adapterRefused(
          fields.base,
          `${base.name} runs with ${noAdapters}; update it without this argument, or choose another base.`,
        );
      // So that the next request to this replica finds it.
      await deps.refresh();
      return created;
    },
    get: find,
    async change(owner, name, change) {
      const { id, account } = await find(owner, name);
      await store.change(id, account, change);
      return find(owner, name);
    },
    async remove(owner, name) {
      const found = await find(owner, name);
      if (!(await store.remove(found.id, found.account))) throw new AdapterNotFound(name);
      await deps.refresh();
      return { ...found, status: "deleted", held: 0 };
    },
    list: store.list,
  };
}

function whyNone({ name, adapter, task }: ServedModel): string {
  if (adapter) return `${name} is an adapter; use its base, ${adapter.baseName}.`;
  if (!adaptedTasks.has(task)) return `${name} has the task ${task}; only text and image models support adapters.`;
  return `the engine of ${name} cannot load adapters at run time; deploy it on our own runtime (GGUF) or vLLM.`;
}
