"""Features, one folder each.

``plan`` is pure, ``io`` touches the world, ``run`` knows both, ``show`` is for readers,
and ``cli`` reads options: a file, or a folder of files.
"""
