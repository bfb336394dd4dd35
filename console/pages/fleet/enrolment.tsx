// New hosts: a token, the line to run on the host, and which hosts have joined.
import { Alert, Code as CodeText, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { nodeCommand } from "../../domain/drain.ts";
import { hostStatus, tokenStatus } from "../../domain/enrolment.ts";
import { pathOfNode } from "../../domain/fleet.ts";
import type { Enrolment } from "../../domain/host.ts";
import { text } from "../../text/fleet-enrolment.ts";
import { Act } from "../../ui/act.tsx";
import { Copy } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { NewToken } from "./new-token.tsx";

export function EnrolmentPage(): ReactNode {
  const enrolment = useGet<Enrolment>("/v1/admin/nodes/enrolment", { everyMs: 3000 });
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={enrolment}>
        {(found) => (
          <Stack gap="md">
            {found.agent_address.is_local && (
              <Alert color="blue" variant="light" icon={<IconInfoCircle />}>
                {text.local}
              </Alert>
            )}
            <SimpleGrid cols={{ base: 1, lg: 2 }}>
              <NewToken enrolment={found} />
              <Tls of={found} />
            </SimpleGrid>
            <Section title={text.hosts.title}>
              <DataTable
                name="enrolled hosts"
                rows={found.nodes}
                columns={hostColumns}
                keyOf={({ node_id: id }) => id}
                empty={text.hosts.empty}
              />
            </Section>
            <Section title={text.tokens.title}>
              <DataTable
                name="tokens"
                id="t-"
                rows={found.tokens}
                columns={tokenColumns}
                keyOf={({ token_id: id }) => id}
                empty={text.tokens.empty}
              />
            </Section>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Tls({ of: { authority, agent_address: address } }: { of: Enrolment }): ReactNode {
  const words = text.tls;
  return (
    <Section title={words.title} about={words.about}>
      <Facts
        isWide
        of={[
          { label: words.listens, value: `${address.host}:${address.port}`, note: words.version },
          {
            label: words.hash,
            value: (
              <>
                <CodeText>{authority.sha256}</CodeText> <Copy value={authority.sha256} />
              </>
            ),
          },
          { label: words.expires, value: <Ago at={authority.expires_at} /> },
          { label: words.life, value: words.lifeText(authority.node_certificate_hours) },
        ]}
      />
    </Section>
  );
}

type Token = Enrolment["tokens"][number];
type Host = Enrolment["nodes"][number];

const tokenColumns: readonly Column<Token>[] = [
  { name: text.tokens.token, value: (one) => one.token_id, show: (one) => <CodeText>{one.token_id}</CodeText> },
  {
    name: text.tokens.status,
    value: (one) => text.tokens[tokenStatus(one, Date.now())],
    show: (one) => <Status of={text.tokens[tokenStatus(one, Date.now())]} />,
  },
  { name: text.tokens.pool, value: (one) => one.pool },
  { name: text.tokens.node, value: (one) => one.node_id ?? text.tokens.anyNode },
  {
    name: text.tokens.usedBy,
    value: (one) => one.used_by,
    show: (one) => one.used_by && <Link to={pathOfNode(one.used_by)}>{one.used_by}</Link>,
  },
  { name: text.tokens.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  { name: text.tokens.expires, value: (one) => one.expires_at, show: (one) => <Ago at={one.expires_at} /> },
];

const hostColumns: readonly Column<Host>[] = [
  {
    name: text.hosts.host,
    value: (one) => `${one.name ?? ""} ${one.node_id}`,
    show: (one) =>
      one.name === null ? (
        <CodeText>{one.node_id}</CodeText>
      ) : (
        <Link to={pathOfNode(one.node_id)} fw={600}>
          {one.name}
        </Link>
      ),
  },
  {
    name: text.hosts.status,
    value: (one) => text.hosts[hostStatus(one, Date.now())],
    show: (one) => (
      <>
        <Status of={text.hosts[hostStatus(one, Date.now())]} />
        {hostStatus(one, Date.now()) === "pending" && (
          <Text size="xs" c="dimmed">
            {text.hosts.pendingNote}
          </Text>
        )}
      </>
    ),
  },
  { name: text.hosts.pool, value: (one) => one.pool },
  { name: text.hosts.enrolled, value: (one) => one.enrolled_at, show: (one) => <Ago at={one.enrolled_at} /> },
  {
    name: text.hosts.certificate,
    value: (one) => one.certificate_expires_at,
    show: (one) => <Ago at={one.certificate_expires_at} />,
  },
  // A host that connected is revoked on its own page, which shows what runs there.
  actionsColumn((one) => hostStatus(one, Date.now()) === "pending" && <Revoke host={one} />),
];

function Revoke({ host: { node_id: id } }: { host: Host }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.hosts.revoke}
      color="red"
      variant="light"
      command={nodeCommand("revoke", id)}
      done={text.hosts.wasRevoked}
      confirm={{ title: text.hosts.revokeTitle(id), body: text.hosts.revokeBody }}
      onAct={async () => {
        await api.call("POST", `/v1/admin/nodes/${encodeURIComponent(id)}/revoke`, {});
        await refresh("/v1/admin/nodes");
      }}
    />
  );
}
