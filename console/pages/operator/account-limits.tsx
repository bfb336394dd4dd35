import { NumberInput, SimpleGrid, Stack, Table, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGetAll, useRefresh } from "../../api/hooks.ts";
import { changedLimits } from "../../domain/limit-change.ts";
import { text as all } from "../../text/operator-accounts.ts";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { pathOfAccount } from "./account-path.ts";

const text = all.limits;

type Limits = Responses["GET /v1/admin/accounts/{uid}/limits"];
type Types = Responses["GET /v1/gpu_pool/gpu_types"];

export function AccountLimits({ uid }: { uid: string }): ReactNode {
  const path = `${pathOfAccount(uid)}/limits`;
  const limits = useGetAll<[Limits, Types]>([path, "/v1/gpu_pool/gpu_types"]);
  return (
    <Loaded query={limits}>
      {([now, { gpu_types: types }]) => <LimitForm key={JSON.stringify(now)} path={path} now={now} types={types} />}
    </Loaded>
  );
}

function LimitForm({ path, now, types }: { path: string; now: Limits; types: readonly string[] }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const save = async (fields: Fields) => {
    await api.call("PUT", path, { ...changedLimits(fields, now, types), note: fields["note"] });
    await refresh(path);
  };
  return (
    <Section about={text.about}>
      <Form act={text.save} done={text.saved} onSend={save}>
        <Stack gap="md">
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <NumberInput label={text.requests} name="requests" min={0} defaultValue={now.rate_limit} />
            <NumberInput label={text.tokens} name="tokens" min={0} defaultValue={now.tpm_rate_limit} />
            <NumberInput label={text.weight} name="weight" min={1} max={100} defaultValue={now.weight} />
          </SimpleGrid>
          {types.length > 0 && (
            <Table maw={640} verticalSpacing={4}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{text.gpu}</Table.Th>
                  <Table.Th>{text.max}</Table.Th>
                  <Table.Th>{text.min}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {types.map((gpu) => (
                  <Table.Tr key={gpu}>
                    <Table.Td>{gpu}</Table.Td>
                    {(["max", "min"] as const).map((bound) => (
                      <Table.Td key={bound}>
                        <NumberInput
                          size="xs"
                          aria-label={bound === "max" ? text.maxOf(gpu) : text.minOf(gpu)}
                          name={`${bound} ${gpu}`}
                          min={0}
                          max={1_000_000}
                          defaultValue={now[`gpu_${bound}`][gpu] ?? 0}
                        />
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          )}
          <TextInput label={text.note} name="note" maxLength={2000} required maw={640} />
        </Stack>
      </Form>
    </Section>
  );
}
