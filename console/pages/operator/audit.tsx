import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/operator-audit.ts";
import { Command } from "../../ui/code.tsx";
import { Page } from "../../ui/page.tsx";
import { AuditLog } from "./audit-log.tsx";

export function Audit(): ReactNode {
  const [account] = useFilter("account");
  const [action] = useFilter("action");
  const command = `stoker admin audit${account && ` --account ${account}`}${action && ` --action ${action}`}`;
  return (
    <Page title={text.title} about={text.about}>
      <AuditLog />
      <Command value={command} />
    </Page>
  );
}
