import { Alert, Anchor, Text } from "@mantine/core";
import { IconAlertTriangle, IconClock } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Deployment } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { StartProgress } from "./progress.tsx";

const words = text.detail;

interface NoticesProps {
  readonly one: Deployment;
  /** Below the reason of a failure. */
  readonly children?: ReactNode;
}

/** What is wrong, verbatim, and what to do about it. */
export function Notices({ one, children }: NoticesProps): ReactNode {
  const { status, fail_reason: failure, update_error: reverted, pending_reasons: pending, progress } = one;
  const { trouble = "" } = progress ?? {};
  return (
    <>
      {status === "deleted" && (
        <Alert color="gray" variant="light">
          {words.gone}
        </Alert>
      )}
      {failure && (
        <Alert color="red" variant="light" icon={<IconAlertTriangle />} title={words.failure} role="alert">
          <Verbatim text={failure} />
          {status === "failed" && <Text size="sm">{words.failureAdvice}</Text>}
          {children}
        </Alert>
      )}
      {reverted && (
        <Alert color="yellow" variant="light" icon={<IconAlertTriangle />} title={words.rolledBack}>
          <Verbatim text={reverted} />
          <Text size="sm">{words.rolledBackAdvice}</Text>
        </Alert>
      )}
      {pending.length > 0 && (
        <Alert color="yellow" variant="light" icon={<IconClock />} title={words.waiting}>
          <ul className="reasons">
            {hostsByReason(pending).map(({ why, hosts }) => (
              <li key={why}>
                <b>{words.hosts(hosts.slice(0, maxNamedHosts), hosts.length)}</b>: {why}
              </li>
            ))}
          </ul>
          <Text size="sm">{words.waitingAdvice}</Text>
        </Alert>
      )}
      {trouble && (
        <Alert color="yellow" variant="light" icon={<IconClock />} title={words.trouble}>
          <Verbatim text={trouble} />
        </Alert>
      )}
      <StartProgress one={one} />
    </>
  );
}

const maxNamedHosts = 5;

/** A fleet of a thousand hosts has few reasons. */
function hostsByReason(
  pending: Deployment["pending_reasons"],
): readonly { readonly why: string; readonly hosts: readonly string[] }[] {
  return [...Map.groupBy(pending, ({ why }) => why)].map(([why, of]) => ({
    why,
    hosts: of.map(({ host }) => host || words.allHosts),
  }));
}

const Verbatim = ({ text: of }: { text: string }): ReactNode => (
  <Text size="sm" mb={4} className="verbatim">
    {of.split(/(https:\/\/[^\s,;)]+[^\s,;).:])/).map((part, index) =>
      index % 2 === 0 ? (
        part
      ) : (
        <Anchor key={part} href={part} target="_blank" rel="noreferrer" inherit>
          {part}
        </Anchor>
      ),
    )}
  </Text>
);
