// `stoker lora`: adapters of the account, loaded beside a base model that runs.
import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { readLocalFile } from "../local-file.ts";
import { calledInFull, meantBy } from "../meant-by.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

interface LoraStatus {
  readonly lora_name: string;
  readonly base_model: string;
  readonly deploy_id: string;
  readonly status: string;
  readonly fail_reason: string;
}

interface AddFlags {
  readonly repo?: string;
  readonly url?: string;
  readonly base: string;
  readonly revision?: string;
  readonly hfTokenFile?: string;
  readonly description?: string;
}

export function addLora(program: Command): void {
  const lora = program.command("lora").description("adapters that change what a model answers");
  lora
    .command("add <name>")
    .description("serve an adapter (owner/name) on a base model that is served here")
    .requiredOption("--base <model>", "the model that it adapts")
    .option("--repo <repo>", "hub repository of the adapter")
    .option("--url <url>", "or its .safetensors file, for a model that paints")
    .option("--revision <revision>", "branch, tag or commit")
    .option("--hf-token-file <file>", "file with the token of the hub, or of the URL's host")
    .option("--description <text>", "shown in lists")
    .action(async (name: string, flags: AddFlags, command: Command) => {
      const terminal = openTerminal(command);
      const { repo, url, base, revision, hfTokenFile, description } = flags;
      if ((repo === undefined) === (url === undefined))
        throw new CliError("Give --repo or --url.", exitCode.wrongUsage);
      const token = hfTokenFile === undefined ? undefined : readLocalFile(hfTokenFile).toString().trim();
      const made = await terminal.api.call<{ deploy_id: string }>("POST", "/v1/lora/create", {
        base_model: base,
        lora_name: name,
        source: url === undefined ? { type: "huggingface", repo, revision, token } : { type: "url", url, token },
        description,
      });
      terminal.show(made, ({ deploy_id }) => deploy_id);
      terminal.progress(`It is loaded when the first request for ${name} comes: stoker lora status ${name}`);
    });
  lora
    .command("list")
    .description("your adapters")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const all = await terminal.api.call<LoraStatus[]>("GET", "/v1/user/loras");
      terminal.rows(all, ["NAME", "BASE", "STATUS", "ID"], (one) => [
        one.lora_name,
        one.base_model,
        one.status,
        one.deploy_id,
      ]);
    });
  lora
    .command("status <name>")
    .description("where an adapter is, and why it is not further; of the name what tells it from your others will do")
    .action(async (given: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const name = await nameOf(terminal, given);
      terminal.show(await terminal.api.call<LoraStatus>("GET", `${pathOf(name)}/status`), (one) =>
        one.fail_reason === "" ? one.status : `${one.status}: ${one.fail_reason}`,
      );
    });
  lora
    .command("delete <name>")
    .description("unload an adapter and forget it; its name in full, with its owner or without")
    .action(async (given: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const name = await nameOf(terminal, given, calledInFull);
      terminal.show(await terminal.api.call("DELETE", pathOf(name)), () => `${name} is deleted.`);
    });
}

/** Without its owner, or (but for `calledInFull`) its beginning, where no other of the account's adapters is called so. */
async function nameOf({ api }: Terminal, given: string, find = meantBy): Promise<string> {
  const all = await api.call<LoraStatus[]>("GET", "/v1/user/loras");
  return find(
    given,
    all.map(({ lora_name: name }) => ({ key: name, names: [name.slice(name.indexOf("/") + 1)] })),
  );
}

/** The slash between owner and name stands in the path as it is. */
const pathOf = (name: string) => `/v1/lora/${name.split("/").map(encodeURIComponent).join("/")}`;
