import cohere

from driver import base, key, question, ranking, serve

client = cohere.ClientV2(base_url=base, api_key=key)


def rerank():
    found = client.rerank(model=ranking, query=question, documents=["one", "two"])
    return [[one.index, one.relevance_score] for one in found.results]


serve({"rerank": rerank})
