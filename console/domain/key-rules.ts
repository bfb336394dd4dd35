// Permissions and limits of an API key: form fields, request bodies, and a description in sentences.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/keys.ts";
import { count, inUtc, usd } from "../ui/format.ts";
import { inShell } from "./literals.ts";

export type Key = Responses["GET /v1/api-tokens"][number];
export type KeyLimit = Responses["GET /payment/key-limits"][number];
/** API paths. */
export const keysPath = "/v1/api-tokens";
export const limitsPath = "/payment/key-limits";

export type Role = Key["role"];

export interface KeyRow extends Key {
  /** USD per UTC month. Null: none. */
  readonly limit: number | null;
  /** USD this month. */
  readonly spend: number;
}

export function withLimits(keys: readonly Key[], limits: readonly KeyLimit[]): readonly KeyRow[] {
  const byId = new Map(limits.map((one) => [one.token_id, one]));
  return keys.map((key) => {
    const { limit = null, spend = 0 } = byId.get(key.token_id) ?? {};
    return { ...key, limit, spend };
  });
}

/** Fields of the form. Numbers are empty where there is no limit. */
export interface KeyForm {
  readonly name: string;
  readonly role: Role;
  readonly models: readonly string[];
  readonly budget: number | "";
  /** Days, `never`, or `kept`. */
  readonly lifetime: string;
  /** Id; empty: none. Only of a new key. */
  readonly project: string;
  readonly addresses: string;
  readonly requests: number | "";
  readonly tokens: number | "";
  readonly passesUsers: boolean;
}

export const newKey: KeyForm = {
  name: "",
  role: "inference",
  models: [],
  budget: "",
  lifetime: "never",
  project: "",
  addresses: "",
  requests: "",
  tokens: "",
  passesUsers: false,
};

export const formOf = (key: KeyRow): KeyForm => ({
  name: key.name,
  role: key.role,
  models: key.allowed_models ?? [],
  budget: key.limit ?? "",
  lifetime: "kept",
  project: key.project_id ?? "",
  addresses: key.allowed_ips?.join(" ") ?? "",
  requests: key.requests_per_minute ?? "",
  tokens: key.tokens_per_minute ?? "",
  passesUsers: key.trusts_user_headers,
});

const addressesOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter((one) => one !== "");
const orNull = <Item>(list: readonly Item[]): readonly Item[] | null => (list.length > 0 ? list : null);
const numberOrNull = (value: number | ""): number | null => (value === "" ? null : value);

const daySeconds = 86_400;
const expiryOf = (lifetime: string, nowMs: number): number => Math.floor(nowMs / 1000) + Number(lifetime) * daySeconds;

/** Body of POST and PATCH without the name. */
export const rulesOf = (form: KeyForm, nowMs: number): Readonly<Record<string, unknown>> => ({
  role: form.role,
  allowed_models: orNull(form.models),
  allowed_ips: orNull(addressesOf(form.addresses)),
  requests_per_minute: numberOrNull(form.requests),
  tokens_per_minute: numberOrNull(form.tokens),
  monthly_limit: numberOrNull(form.budget),
  trusts_user_headers: form.passesUsers,
  ...(form.lifetime === "kept"
    ? {}
    : { expires_at: form.lifetime === "never" ? null : expiryOf(form.lifetime, nowMs) }),
});

/** Describes permissions and limits of the form in sentences. `expiresAt`: Unix seconds, where the lifetime is kept. */
export function previewOf(form: KeyForm, nowMs: number, expiresAt: number | null = null): readonly string[] {
  const words = text.preview;
  const addresses = addressesOf(form.addresses);
  const rates = [
    ...(form.requests === "" ? [] : [words.requests(count(form.requests))]),
    ...(form.tokens === "" ? [] : [words.tokens(count(form.tokens))]),
  ];
  const until =
    form.lifetime === "never" ? null : form.lifetime === "kept" ? expiresAt : expiryOf(form.lifetime, nowMs);
  return [
    text.roleMeans[form.role],
    ...(form.role === "read" ? [] : [form.models.length > 0 ? words.models(form.models.join(", ")) : words.anyModel]),
    form.budget === "" ? words.noBudget : form.budget === 0 ? words.blocked : words.budget(usd(form.budget)),
    addresses.length > 0 ? words.addresses(addresses.join(", ")) : words.anywhere,
    rates.length > 0 ? words.rates(rates.join(", ")) : words.noRate,
    until === null ? words.forever : words.until(inUtc(until * 1000)),
  ];
}

/** Describes role, models, addresses and rates of a key in one line. */
export function scopeOf(key: Key): string {
  const { allowed_models: models, allowed_ips: ips, requests_per_minute: rpm, tokens_per_minute: tpm } = key;
  return [
    text.roles[key.role],
    ...(key.role === "read" ? [] : [models ? text.models(models.join(", ")) : text.anyModel]),
    ...(ips ? [text.addresses(ips.join(", "))] : []),
    ...(rpm === null ? [] : [text.requestsRate(count(rpm))]),
    ...(tpm === null ? [] : [text.tokensRate(count(tpm))]),
    ...(key.trusts_user_headers ? [text.passesUsers] : []),
  ].join(" · ");
}

/** Spent part of the monthly limit, 0 to 1; undefined: no limit. */
export const spentRatio = ({ limit, spend }: Pick<KeyRow, "limit" | "spend">): number | undefined =>
  limit === null ? undefined : limit === 0 ? 1 : Math.min(1, spend / limit);

/** The command that creates the same key. */
export function commandOf({
  name,
  role,
  models,
  project,
  addresses,
  lifetime,
  budget,
  requests,
  tokens,
  passesUsers,
}: KeyForm): string {
  const word = /^[\w./:-]+$/.test(name) ? name : inShell(name || "NAME");
  return [
    `stoker token create ${word}`,
    ...(role === "admin" ? [] : [`--role ${role}`]),
    ...models.map((model) => `--model ${model}`),
    ...(project === "" ? [] : [`--project ${project}`]),
    ...addressesOf(addresses).map((one) => `--ip ${one}`),
    ...(/^\d+$/.test(lifetime) ? [`--expires ${lifetime}d`] : []),
    ...(budget === "" ? [] : [`--budget ${budget}`]),
    ...(requests === "" ? [] : [`--rpm ${requests}`]),
    ...(tokens === "" ? [] : [`--tpm ${tokens}`]),
    ...(passesUsers ? ["--trust-user-headers"] : []),
  ].join(" ");
}
