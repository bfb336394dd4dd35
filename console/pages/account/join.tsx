// Page of an invitation's link. Opening it changes nothing; its button accepts.
import { Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useVisitor } from "../../app/visitor.ts";
import { text } from "../../text/members.ts";
import { Act } from "../../ui/act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

type Offer = Responses["POST /v1/invitations/preview"];
type Joined = Responses["POST /v1/invitations/accept"];

export function Join(): ReactNode {
  const token = new URLSearchParams(location.search).get("ticket") ?? "";
  const { me, person, switchTo } = useVisitor();
  const api = useApi();
  const navigate = useNavigate();
  const offer = useQuery<Offer>({
    queryKey: ["invitation", token],
    queryFn: () => api.call<Offer>("POST", "/v1/invitations/preview", { token }),
    enabled: token !== "",
    retry: false,
  });
  const accept = async () => {
    const { uid, display_name: name } = await api.call<Joined>("POST", "/v1/invitations/accept", { token });
    await switchTo(uid);
    await navigate({ to: "/" as never });
    notifications.show({ message: text.joined(name), color: "green" });
  };
  return (
    <Page title={text.joinTitle}>
      {token === "" ? (
        <Text>{text.noTicket}</Text>
      ) : (
        <Loaded query={offer}>
          {({ organization, role }) => (
            <Stack gap="md" align="flex-start">
              <Text>{text.offer(organization.display_name, role)}</Text>
              <Text size="sm">{text.asAccount((person ?? me).email ?? (person ?? me).display_name)}</Text>
              <Act label={text.accept} variant="filled" size="sm" needs="listModels" onAct={accept} />
            </Stack>
          )}
        </Loaded>
      )}
    </Page>
  );
}
