// Names for one or several models: form, body, sentences and command.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/aliases.ts";
import { inShell } from "./literals.ts";

export type Alias = Responses["GET /v1/model-aliases"]["aliases"][number];
export type AliasScope = Alias["scope"];

export interface Target {
  readonly model: string;
  readonly weight: number;
}

export interface AliasForm {
  readonly name: string;
  readonly scope: AliasScope;
  readonly targets: readonly Target[];
  readonly fallbacks: readonly string[];
  readonly sticky: boolean;
}

export const newAlias: AliasForm = {
  name: "",
  scope: "account",
  targets: [{ model: "", weight: 1 }],
  fallbacks: [],
  sticky: false,
};

/** Path of the alias in the API. Slashes are part of the name. */
export const aliasPath = ({ name, scope }: Pick<AliasForm, "name" | "scope">): string =>
  `/v1/${scope === "installation" ? "admin/" : ""}model-aliases/${encodeURIComponent(name).replaceAll("%2F", "/")}`;

export const isAliasName = (name: string): boolean => /^[\w./:-]{1,256}$/.test(name);

/** Body of PUT. Rows without a model are left out. */
export const aliasBody = ({ targets, fallbacks, sticky }: AliasForm) => ({
  targets: targets
    .filter(({ model }) => model.trim() !== "")
    .map(({ model, weight }) => ({ model: model.trim(), weight })),
  fallbacks,
  sticky,
});

/** At least one model serves without need. */
export const hasShare = (targets: readonly Target[]): boolean => targets.some(({ weight }) => weight > 0);

/** Share of the requests by target; 0: serves only if the others cannot. */
export function sharesOf(targets: readonly Target[]): readonly number[] {
  const sum = targets.reduce((all, { weight }) => all + weight, 0);
  return targets.map(({ weight }) => (sum === 0 ? 0 : weight / sum));
}

export const shareText = (share: number): string =>
  `${(100 * share).toLocaleString("en-US", { maximumFractionDigits: share < 0.1 ? 1 : 0 })} %`;

/** Targets in one line. */
export function targetsText(targets: readonly Target[]): string {
  const shares = sharesOf(targets);
  return targets
    .map(({ model }, at) =>
      (shares[at] ?? 0) > 0 ? text.share(shareText(shares[at] ?? 0), model) : text.standby(model),
    )
    .join(", ");
}

/** Describes how requests that name the alias are routed. */
export function aliasPreview(form: AliasForm): readonly string[] {
  const { targets, fallbacks } = aliasBody(form);
  if (targets.length > 0 && !hasShare(targets)) return [text.preview.noShare];
  const shares = sharesOf(targets);
  return [
    ...targets.map(({ model }, at) => {
      const share = shares[at] ?? 0;
      return share > 0 ? text.preview.share(shareText(share), model) : text.preview.standby(model);
    }),
    ...(fallbacks.length > 0 ? [text.preview.fallbacks(fallbacks.join(", "))] : []),
  ];
}

export function aliasCommand(form: AliasForm): string {
  const { targets } = aliasBody(form);
  const word = (value: string) => (/^[\w./:=-]+$/.test(value) ? value : inShell(value));
  return [
    `stoker model alias create ${word(form.name || "NAME")}`,
    ...targets.map(({ model, weight }) => `--target ${word(`${model}=${weight}`)}`),
    ...form.fallbacks.map((model) => `--fallback ${word(model)}`),
    ...(form.sticky ? ["--sticky"] : []),
    ...(form.scope === "installation" ? ["--installation"] : []),
  ].join(" ");
}
