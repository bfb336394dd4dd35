// Terminals as the edge's port: the account's container and agent instance can have one, and no ticket opens any.
import { terminalSubjectNotFound, terminalTicketInvalid } from "../../control-plane/terminals/errors.ts";
import type { TerminalSubject } from "../../control-plane/terminals/store.ts";
import type { Terminals } from "../../control-plane/terminals/terminals.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";

export const terminalTicket = "t".repeat(43);

export function fakeTerminals(account: AccountId, ids: readonly DeploymentId[]): Terminals {
  const own = async (subject: TerminalSubject): Promise<void> => {
    if (subject.account !== account || !ids.includes(subject.id)) throw terminalSubjectNotFound(subject.kind);
  };
  return {
    async whyNot(subject) {
      await own(subject);
      return undefined;
    },
    async ticket(subject) {
      await own(subject);
      return { ticket: terminalTicket, validSeconds: 30 };
    },
    open: () => Promise.reject(terminalTicketInvalid()),
  };
}
