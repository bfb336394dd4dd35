import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { counted } from "../counted.ts";
import { accountsPath, uidOf } from "./admin-account.ts";

type Policy = Responses["GET /v1/admin/sign-in-policy"];

const path = "/v1/admin/sign-in-policy";
const policyText = ({ second_factor: required }: Policy) => `second factor required for: ${required}`;

export function addAdminSignIn(program: Command): void {
  const group = adminGroup(program).command("sign-in").description("second-factor policy");
  group
    .command("get")
    .alias("show")
    .description("show the policy")
    .example("stoker admin sign-in get")
    .run(async (terminal) => {
      terminal.show(await terminal.api.call<Policy>("GET", path), policyText);
    });
  group
    .command("update")
    .alias("set")
    .description("set the policy; accounts without a required factor can only set one up, API keys keep working")
    .example("stoker admin sign-in update --require-second-factor operators")
    .addOption(
      new Option("--require-second-factor <accounts>", "accounts that need one")
        .choices(["none", "operators", "all"])
        .makeOptionMandatory(),
    )
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, flags: { requireSecondFactor: string; note?: string }) => {
      const body = { second_factor: flags.requireSecondFactor, note: flags.note ?? null };
      terminal.show(await terminal.api.call<Policy>("PUT", path, body), policyText);
    });
  group
    .command("reset <account>")
    .description("remove all second factors of an account and end its sessions")
    .example("stoker admin sign-in reset ada@example.com")
    .confirm((_, name: string) => `Remove all second factors of ${name} and end its sessions?`)
    .run(async (terminal, name: string) => {
      const factors = `${accountsPath}/${await uidOf(terminal.api, name)}/factors`;
      terminal.show(
        await terminal.api.call<{ removed: number }>("DELETE", factors),
        ({ removed }) => `${counted(removed, "second factor")} removed`,
      );
    });
}
