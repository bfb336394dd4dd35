// `stoker model alias`: names for one or several models.
import { InvalidArgumentError } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { collect } from "../option-values.ts";

type Alias = Responses["GET /v1/model-aliases"]["aliases"][number];

interface SetFlags {
  readonly target: readonly Target[];
  readonly fallback?: readonly string[];
  readonly sticky?: boolean;
  readonly installation?: boolean;
}

interface Target {
  readonly model: string;
  readonly weight: number;
}

const pathOf = (name: string, isForAll: boolean | undefined) =>
  `/v1/${isForAll ? "admin/" : ""}model-aliases/${encodeURIComponent(name).replaceAll("%2F", "/")}`;

export function addAlias(model: Command): void {
  const alias = model.command("alias").description("names for one or several models");
  alias
    .command("list")
    .description("list your aliases and those of the installation")
    .example("stoker model alias list")
    .run(async (terminal) => {
      const { aliases } = await terminal.api.call<{ aliases: Alias[] }>("GET", "/v1/model-aliases");
      terminal.rows(
        aliases,
        {
          ALIAS: "name",
          SCOPE: "scope",
          TARGETS: (one) => one.targets.map(({ model: name, weight }) => `${name}=${weight}`).join(" "),
          FALLBACKS: (one) => one.fallbacks.join(" "),
          STICKY: (one) => (one.sticky ? "yes" : "no"),
        },
        { empty: "No aliases. Create one: `stoker model alias create NAME --target MODEL`" },
      );
    });
  alias
    .command("create <name>")
    .alias("set")
    .description("create or replace an alias")
    .example("stoker model alias create prod --target org/v1=95 --target org/v2=5")
    .requiredOption("--target <model=weight>", "model and its share of the requests (default: 1); repeatable", target)
    .option("--fallback <model>", "model to try if no target can serve (repeatable, in order)", collect)
    .option("--sticky", "keep a conversation at one target")
    .option("--installation", "for every account (operators)")
    .run(async (terminal, name: string, flags: SetFlags) => {
      const body = { targets: flags.target, fallbacks: flags.fallback ?? [], sticky: flags.sticky === true };
      terminal.show(await terminal.api.call<Alias>("PUT", pathOf(name, flags.installation), body), (one) => one.name);
    });
  alias
    .command("delete <name>")
    .description("delete an alias; requests that name it receive 404")
    .example("stoker model alias delete prod")
    .confirm((_, name: string) => `Delete alias ${name}? Requests that name it fail from then on.`)
    .option("--installation", "an alias for every account (operators)")
    .run(async (terminal, name: string, { installation }: { installation?: boolean }) => {
      terminal.show(await terminal.api.call<object>("DELETE", pathOf(name, installation)), () => `${name} deleted`);
    });
}

/** `org/model=95`, or a model only. */
function target(text: string, before: readonly Target[] = []): readonly Target[] {
  const [, model = "", weight] = /^(.+?)(?:=(\d+))?$/.exec(text) ?? [];
  if (model === "" || model.includes("="))
    throw new InvalidArgumentError("Must be a model and a weight, such as org/model=95.");
  return [...before, { model, weight: Number(weight ?? 1) }];
}
