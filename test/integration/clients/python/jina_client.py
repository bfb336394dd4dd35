from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.jinaai_rerank import JinaRerank

from driver import base, key, question, ranking, serve

model = JinaRerank(model=ranking, base_url=base + "/v1", api_key=key, top_n=2)


def rerank():
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("one", "two")]
    return [[["one", "two"].index(one.node.text), one.score] for one in model.postprocess_nodes(nodes, query_str=question)]


serve({"rerank": rerank})
