import { Argument, type Command } from "commander";
import { openTerminal } from "../terminal.ts";

export function addAdminPrefixCache(admin: Command): void {
  admin
    .command("prefix-cache")
    .argument("<deploy_id>", "id of the deployment")
    .addArgument(new Argument("<mode>", "shared between accounts, or separate").choices(["shared", "separate"]))
    .description("share the prefix cache of a deployment between accounts, or keep it separate (default)")
    .option("--note <text>", "reason, recorded in the audit log")
    .action(async (id: string, mode: string, { note }: { readonly note?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `/v1/admin/deployments/${encodeURIComponent(id)}/prefix-cache`;
      const body = { shared: mode === "shared", note };
      const result = await terminal.api.call<{ deploy_id: string; shared: boolean }>("PUT", path, body);
      terminal.show(result, ({ deploy_id, shared }) => `${deploy_id}: prefix cache ${shared ? "shared" : "separate"}`);
    });
}
