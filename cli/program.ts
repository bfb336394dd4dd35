// Command tree: one file per group in commands/.

import { type Command as AnyCommand, Help, type Option } from "commander";
import { CliError, exitCode } from "./cli-error.ts";
import { Command, pathOf } from "./command.ts";
import { addAccountCommands } from "./commands/account.ts";
import { addAdminAccount, addAdminPrefixCache } from "./commands/admin-account.ts";
import { addAdminApplication } from "./commands/admin-application.ts";
import { addAdminAudit } from "./commands/admin-audit.ts";
import { addAdminBackup } from "./commands/admin-backup.ts";
import { addAdminBilling } from "./commands/admin-billing.ts";
import { addAdminDeployment } from "./commands/admin-deployment.ts";
import { addAdminDiscount } from "./commands/admin-discount.ts";
import { addAdminFailures } from "./commands/admin-failures.ts";
import { addAdminIdentityProvider } from "./commands/admin-identity-provider.ts";
import { addAdminIncidents } from "./commands/admin-incidents.ts";
import { addAdminKey } from "./commands/admin-key.ts";
import { addAdminLimits } from "./commands/admin-limits.ts";
import { addAdminMail } from "./commands/admin-mail.ts";
import { addAdminPrice } from "./commands/admin-price.ts";
import { addAdminProvider } from "./commands/admin-provider.ts";
import { addAdminRestores } from "./commands/admin-restores.ts";
import { addAdminSignIn } from "./commands/admin-sign-in.ts";
import { addAdminUsage } from "./commands/admin-usage.ts";
import { addAgent, addBackup } from "./commands/agent.ts";
import { addAudit } from "./commands/audit.ts";
import { addAuth } from "./commands/auth.ts";
import { addBatch } from "./commands/batch.ts";
import { addBillingCommands } from "./commands/billing.ts";
import { addChat } from "./commands/chat.ts";
import { addCompletion } from "./commands/completion.ts";
import { addContainer } from "./commands/container.ts";
import { addDeploy } from "./commands/deploy.ts";
import { addDeployCreate } from "./commands/deploy-create.ts";
import { addDeployModel } from "./commands/deploy-model.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addDown } from "./commands/down.ts";
import { addEvents } from "./commands/events.ts";
import { addFile } from "./commands/file.ts";
import { addInfer } from "./commands/infer.ts";
import { addInspect } from "./commands/inspect.ts";
import { addInvoice } from "./commands/invoice.ts";
import { addLimits } from "./commands/limits.ts";
import { addLog } from "./commands/log.ts";
import { addLogin, addLogout } from "./commands/login.ts";
import { addLora } from "./commands/lora.ts";
import { addModel } from "./commands/model.ts";
import { addNode } from "./commands/node.ts";
import { addNodeEnrolment } from "./commands/node-enrolment.ts";
import { addNodeOperations } from "./commands/node-operations.ts";
import { addNodeWeights } from "./commands/node-weights.ts";
import { addInvitation, addMember, addOrganization } from "./commands/organization.ts";
import { addProject } from "./commands/project.ts";
import { addSimulate } from "./commands/simulate.ts";
import { addToken } from "./commands/token.ts";
import { addTop } from "./commands/top.ts";
import { addUp } from "./commands/up.ts";
import { addRequest } from "./commands/usage-log.ts";
import { addVersion } from "./commands/version.ts";
import { addVoice } from "./commands/voice.ts";
import { addWebhook } from "./commands/webhook.ts";
import { addWorkloadIdentity } from "./commands/workload-identity.ts";
import { widthOf, wrap } from "./wrap.ts";

export function createProgram(version: string): Command {
  const program = new Command("stoker")
    .description("Self-hosted inference: deploy models, call them, see what they cost.")
    .option("--json", "print records as JSON")
    .option(
      "--host <url>",
      "URL of the server, or several URLs of one installation separated by commas (default: STOKER_HOST, the profile, a running `up` on this machine, or http://127.0.0.1:8080)",
    )
    .option("--profile <name>", "stored server and key (default: STOKER_PROFILE, or the one of `stoker auth use`)")
    .version(version)
    .exitOverride()
    // Also beside long names of commands and options.
    .configureHelp({ minWidthToWrap: 20, subcommandTerm, commandUsage, optionDescription })
    .configureOutput({ outputError: (text, write) => write(wrap(text, widthOf(process.stderr))) })
    .showHelpAfterError("(stoker --help lists the commands)");
  for (const [heading, adds] of Object.entries(groups)) {
    program.commandsGroup(heading);
    for (const add of adds) add(program);
  }
  program.commandsGroup("Start:");
  addDoctor(program, version);
  addVersion(program, version);
  program.commands.forEach(pointToHelp);
  return program;
}

/** Throws usage errors as CliError, instead of printing them as text with a help line. */
export function throwUsageErrors(command: AnyCommand): void {
  command.configureOutput({ outputError: () => {}, writeErr: () => {} });
  command.exitOverride((error) => {
    if (error.exitCode === 0) throw error;
    const isHelp = error.code === "commander.help";
    const text = isHelp
      ? `Command missing. ${pathOf(command)} --help lists them.`
      : error.message.replace(/^error: /, "");
    throw new CliError(text, exitCode.wrongUsage);
  });
  for (const one of command.commands) throwUsageErrors(one);
}

const argumentsOf = (command: AnyCommand): readonly string[] =>
  command.registeredArguments.map((one) => {
    const name = `${one.name()}${one.variadic ? "..." : ""}`;
    return one.required ? `<${name}>` : `[${name}]`;
  });

/** Without aliases: these are old names. */
const subcommandTerm = (command: AnyCommand): string => [command.name(), ...argumentsOf(command)].join(" ");

const commandUsage = (command: AnyCommand): string => `${pathOf(command)} ${command.usage()}`;

const usual = new Help();
const optionDescription = (option: Option): string =>
  `${usual.optionDescription(option)}${option.mandatory ? " (required)" : ""}`;

/** Usage errors end with the help command of the group or command. */
function pointToHelp(command: AnyCommand): void {
  const listed = command.commands.length > 0 ? "its commands" : "its arguments and options";
  command.showHelpAfterError(`(${pathOf(command)} --help lists ${listed})`);
  command.commands.forEach(pointToHelp);
}

/** Commands by heading, in the order of the help text. */
const groups: Readonly<Record<string, readonly ((program: Command) => void)[]>> = {
  "Start:": [addUp, addDown, addLogin, addLogout, addAuth, addCompletion],
  "Use models:": [
    addChat,
    addInfer,
    addModel,
    addLora,
    addVoice,
    addFile,
    addBatch,
    addRequest,
    addToken,
    addWorkloadIdentity,
    addWebhook,
  ],
  "Deploy:": [addDeployModel, addDeployCreate, addDeploy, addLog, addContainer, addAgent, addBackup],
  "Money:": [addAccountCommands, addBillingCommands, addInvoice, addLimits],
  "Organization:": [addOrganization, addMember, addInvitation, addProject],
  "Operate:": [
    addNodeEnrolment,
    addNodeOperations,
    addNode,
    addNodeWeights,
    addEvents,
    addAudit,
    addTop,
    addInspect,
    addAdminAccount,
    addAdminApplication,
    addAdminDeployment,
    addAdminIncidents,
    addAdminAudit,
    addAdminFailures,
    addAdminMail,
    addAdminSignIn,
    addAdminIdentityProvider,
    addAdminKey,
    addAdminBackup,
    addAdminPrice,
    addAdminProvider,
    addAdminDiscount,
    addAdminBilling,
    addAdminRestores,
    addAdminUsage,
    addAdminLimits,
    addAdminPrefixCache,
    addSimulate,
  ],
};
